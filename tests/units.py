"""Units of tests: what one worker runs in one go, and how long each took in the last complete run.

Tests of a file that share a fixture of the module, or what a function keeps, form one unit; in other files each test
function is one. Longest first, on all workers, so that none is idle at the end.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds by unit, of those that start processes, and of others that take at least ``_KEPT_SECONDS``."""
_KEPT_SECONDS = 2.0
_SHARED = re.compile(
    r"""scope=["'](module|session|package|class)["']|^class Test|^@(functools\.)?cache$|\brecorded(_run)?\(""", re.M
)
_STARTING = ("tests/browser/", "tests/detection/", "tests/fault/", "tests/process/")
_UNKNOWN_SECONDS = 10.0
"""For a new unit of tests that start processes."""


def unit_of(test: str, root: Path) -> str:
    """Return the unit of a test, by its node id."""
    file, _, name = test.partition("::")
    if not file.startswith(_STARTING) or _is_shared(root / file):
        return file
    return f"{file}::{name.partition('[')[0]}"


def is_kept(unit: str, seconds: float) -> bool:
    """Return whether it is recorded how long a unit took."""
    return seconds >= _KEPT_SECONDS or unit.startswith(_STARTING)


def expected_seconds(unit: str) -> float:
    """Return how long a unit takes, as far as it is known."""
    known = _durations()
    file = unit.partition("::")[0]
    return known.get(unit, known.get(file, _UNKNOWN_SECONDS if file.startswith(_STARTING) else 0.0))


@cache
def _is_shared(file: Path) -> bool:
    texts = [each.read_text(encoding="utf-8") for each in (file, file.with_name("conftest.py")) if each.exists()]
    return any(_SHARED.search(text) for text in texts)


@cache
def _durations() -> dict[str, float]:
    return dict(json.loads(DURATIONS.read_text(encoding="utf-8"))) if DURATIONS.exists() else {}
