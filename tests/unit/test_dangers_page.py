"""The page of dangers names tests and kinds of training that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "DANGERS.md").read_text()


def test_every_test_that_it_names_is_there() -> None:
    named = re.findall(r"`tests/(\S+?\.py)::(\w+)`", PAGE)
    assert len(named) > 50
    missing = [(path, name) for path, name in named if f"def {name}(" not in (TESTS / path).read_text()]
    assert missing == []


def test_every_kind_of_training_is_there_and_none_is_forgotten() -> None:
    named = set(re.findall(r"kinds\[(\w+)\]", PAGE)) - {"NAME"}
    scripts = (TESTS / "process" / "scripts").glob("kinds*.py")
    there = {name for path in scripts for name in re.findall(r"@kind\ndef (\w+)\(", path.read_text())}
    assert named == there
