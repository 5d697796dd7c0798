"""References in tests/DANGERS.md to tests and kinds of training."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "DANGERS.md").read_text()


def test_all_named_tests_exist() -> None:
    named = re.findall(r"`tests/(\S+?\.py)::(\w+)`", PAGE)
    assert len(named) > 50
    missing = [(path, name) for path, name in named if f"def {name}(" not in (TESTS / path).read_text()]
    assert missing == []


def test_all_kinds_of_training_are_named_and_exist() -> None:
    named = set(re.findall(r"kinds\[(\w+)\]", PAGE)) - {"NAME"}
    scripts = (TESTS / "process" / "scripts").glob("kinds*.py")
    existing = {name for path in scripts for name in re.findall(r"@kind\ndef (\w+)\(", path.read_text())}
    assert named == existing
