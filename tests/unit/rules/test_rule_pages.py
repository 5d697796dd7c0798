"""docs/rules/ says what the docstrings say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from leadline.rules.registry import BUILT_IN

MADE = runpy.run_path(str(Path(__file__).resolve().parents[3] / "scripts" / "rule_pages.py"))


@pytest.mark.parametrize("name", ["index.md", *(f"{name}.md" for name in sorted(BUILT_IN))])
def test_a_page_is_as_the_docstring_has_it(name: str) -> None:
    assert (MADE["FOLDER"] / name).read_text() == MADE["pages"]()[name], "run: python scripts/rule_pages.py"


def test_there_are_no_pages_of_rules_that_are_no_more() -> None:
    assert {path.name for path in MADE["FOLDER"].glob("*.md")} == {*MADE["pages"](), MADE["MEASURED"]}
