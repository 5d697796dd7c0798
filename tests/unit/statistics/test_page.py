"""The statistics page matches the definitions."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def test_the_page_matches_the_definitions() -> None:
    script = runpy.run_path(str(SCRIPTS / "statistics_page.py"))
    assert script["PAGE"].read_text() == script["page"](), "run: python scripts/statistics_page.py"
