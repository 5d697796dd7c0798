"""Navigation from the run list to each page of a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from leadline.dashboard.page import RUN_PAGES
from leadline.testing.runs import Capture, RunWriter


def test_every_page_of_a_run_opens(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    parts = [Capture(step, {"loss": {"value": 1.0 / (step + 1)}}) for step in range(20)]
    RunWriter(str(tmp_path / "first")).write_all(parts).end()
    page.goto(dashboard(tmp_path))
    page.get_by_role("link", name="first", exact=True).click()
    navigation = page.get_by_role("navigation", name="Pages of the run")
    expect(navigation.get_by_role("link")).to_have_count(len(RUN_PAGES) - 3)  # no trees, ranks, checks
    for title in (title for key, title in RUN_PAGES.items() if key not in ("model", "ranks", "checks")):
        navigation.get_by_role("link", name=title, exact=True).click()
        expect(page).to_have_title(re.compile(title))
        expect(page.get_by_role("heading", level=1)).to_be_visible()
