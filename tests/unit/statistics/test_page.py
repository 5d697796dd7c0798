"""The page about statistics says what the definitions say."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def test_the_page_is_as_the_definitions_are() -> None:
    made = runpy.run_path(str(SCRIPTS / "statistics_page.py"))
    assert made["PAGE"].read_text() == made["page"](), "run: python scripts/statistics_page.py"
