"""docs/reference/rules/ is up to date with the docstrings."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from leadline.rules.registry import BUILT_IN

SCRIPT = runpy.run_path(str(Path(__file__).resolve().parents[3] / "scripts" / "rule_pages.py"))


@pytest.mark.parametrize("name", ["index.md", *(f"{name}.md" for name in sorted(BUILT_IN))])
def test_a_page_is_up_to_date_with_the_docstring(name: str) -> None:
    assert (SCRIPT["FOLDER"] / name).read_text() == SCRIPT["pages"]()[name], "run: python scripts/rule_pages.py"


def test_there_are_no_pages_of_removed_rules() -> None:
    assert {path.name for path in SCRIPT["FOLDER"].glob("*.md")} == {*SCRIPT["pages"](), *SCRIPT["WITHOUT_RULE"]}
