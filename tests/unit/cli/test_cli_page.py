"""docs/reference/cli.md is up to date with the commands."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).resolve().parents[3] / "scripts" / "cli_page.py"))


def test_the_page_is_up_to_date_with_the_commands() -> None:
    assert SCRIPT["PAGE"].read_text() == SCRIPT["page"](), "run: python scripts/cli_page.py"
