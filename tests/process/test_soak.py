"""Memory of Leadline over many steps; ``benchmarks/soak.py`` measures a hundred thousand steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from launching import environment, finish

pytestmark = pytest.mark.real_starts

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.parametrize(
    ("steps", "wishes", "room_bytes"),
    [
        pytest.param(
            5000, (), 1 << 20, id="standard", marks=pytest.mark.slow
        ),  # exceeded by a leak of 300 bytes per step
        pytest.param(3000, ("--objects", "--capture", "all:every=5"), 200_000, id="everything", marks=pytest.mark.slow),
    ],
)
def test_memory_does_not_grow(tmp_path: Path, steps: int, wishes: tuple[str, ...], room_bytes: int) -> None:
    ended = finish([sys.executable, str(SOAK), "--steps", str(steps), *wishes], tmp_path, env=environment())
    assert ended.status == 0, ended.err
    told = json.loads(ended.out)
    assert told["growth_bytes"] < room_bytes, told["held_bytes"]
    assert told["files"] < 40
