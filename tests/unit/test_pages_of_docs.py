"""Links and tables in the documentation pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = [PROJECT / "README.md", PROJECT / "docs" / "llms.txt", *sorted((PROJECT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_have_targets(page: Path) -> None:
    without_code = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", without_code)
    missing = [link for link in links if "://" not in link and not target_exists(page, link)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_columns_of_tables_have_headings(page: Path) -> None:
    heads = re.findall(r"^(\|.*\|)\n\|(?:[-:]+\|)+$", page.read_text(), flags=re.MULTILINE)
    assert [head for head in heads if re.search(r"\|\s*\|", head)] == []


def target_exists(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not anchor or target.suffix != ".md" or anchor in anchors(target)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
