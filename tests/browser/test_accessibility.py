"""Every page, light and dark, wide and narrow: no serious finding of axe-core, nothing cut; reachable by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import page_runs
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from leadline.dashboard.page import RUN_PAGES
from leadline.testing.runs import Capture, RunWriter

OPTIONS = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
_CUT = """width => [
  ...(document.documentElement.scrollWidth > width ? ["the page scrolls sideways"] : []),
  ...[...document.querySelectorAll("td, th")]
    .filter(cell => cell.clientWidth && cell.clientWidth < 60 && cell.innerText.trim().length > 20)
    .map(cell => `a column of letters: ${cell.innerText}`),
]"""


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_no_page_has_a_serious_finding(tmp_path: Path, dashboard: Callable[..., str], page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page_runs.write_full_run(tmp_path / "story")
    RunWriter(tmp_path / "other").write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(9)]).end()
    address = dashboard(tmp_path)
    paths = ["/", "/compare?run=story&run=other", *(f"/runs/story/{key}" for key in RUN_PAGES)]
    found: dict[str, list[str]] = {}
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        for path in paths:
            page.goto(f"{address}{path}", wait_until="networkidle")
            expect(page.locator("html")).to_have_attribute("data-theme", theme)
            if cut := page.evaluate(_CUT, width):
                found.setdefault("cut", []).append(f"{path}: {cut[:3]}")
            for violation in Axe().run(page, options=OPTIONS).response["violations"]:
                if violation["impact"] in ("serious", "critical"):
                    targets = [f"{node['target']} {node['failureSummary'][:300]}" for node in violation["nodes"][:3]]
                    found.setdefault(violation["id"], []).append(f"{theme} {path}: {targets}")
    assert found == {}


def test_findings_and_controls_are_reached_by_keyboard(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    page_runs.write_full_run(tmp_path / "story")
    page.goto(f"{dashboard(tmp_path)}/runs/story/overview")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    summary = page.locator("#rule-mine > summary")
    for _ in range(5):  # past links within the outcome and the heading of the card
        page.keyboard.press("Tab")
        if summary.evaluate("summary => summary === document.activeElement"):
            break
    expect(summary).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#rule-mine")).to_have_attribute("open", "")
