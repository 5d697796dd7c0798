"""Runs page in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from leadline.testing.runs import START_NS, Capture, RunWriter

SECOND_NS = 1_000_000_000


def write_run(root: Path, name: str, *, started_ns: int = START_NS) -> RunWriter:
    writer = RunWriter(str(root / name), started_ns=started_ns)
    return writer.write_all([Capture(step, {"loss": {"value": 1.0 / (step + 1)}}) for step in range(20)])


def test_runs_are_filtered_compared_and_added_live(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    write_run(tmp_path, "lr-0.1").end()
    write_run(tmp_path, "lr-0.01", started_ns=START_NS + SECOND_NS).end("Failed", 1)
    malicious = write_run(tmp_path, "<img src=x onerror=alert(1)>", started_ns=START_NS + 2 * SECOND_NS).end()
    assert Path(malicious.path).is_dir()
    page.goto(dashboard(tmp_path))
    rows = page.locator("table.runs tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("svg.sparkline")).to_have_count(3)
    expect(page.locator("svg.sparkline").last).to_have_attribute("aria-label", "loss from 1 to 0.05")

    page.get_by_role("searchbox").press_sequentially("lr-")
    expect(rows).to_have_count(2)
    expect(page).to_have_url(re.compile("q=lr-"))
    page.get_by_label("Job status", exact=True).select_option("Failed")
    expect(rows).to_have_count(1)
    page.get_by_label("Job status", exact=True).select_option("")
    expect(rows).to_have_count(2)

    page.get_by_role("checkbox", name="Compare lr-0.1", exact=True).check()
    compare = page.locator("[data-compares]")
    expect(compare).to_have_attribute("aria-disabled", "true")
    page.get_by_role("checkbox", name="Compare lr-0.01", exact=True).check()
    expect(compare).to_have_attribute("href", "/compare?a=lr-0.1&b=lr-0.01")

    live = write_run(tmp_path, "lr-0.001", started_ns=START_NS + 3 * SECOND_NS)
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("InProgress")
    expect(page.get_by_role("checkbox", name="Compare lr-0.1", exact=True)).to_be_checked()
    live.end()
    expect(rows.first).to_contain_text("Completed")

    page.get_by_role("link", name="Run", exact=True).click()
    expect(rows.first).to_contain_text("lr-0.001")
    page.get_by_role("link", name="lr-0.01", exact=True).click()
    expect(page).to_have_title(re.compile(r"^lr-0\.01 · Overview"))


def test_an_empty_folder_shows_how_to_start(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    page.goto(dashboard(tmp_path))
    expect(page.get_by_role("main")).to_contain_text("leadline run train.py")
    write_run(tmp_path, "first").end()
    expect(page.get_by_role("link", name="first", exact=True)).to_be_visible()


def test_light_and_dark_are_kept(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    write_run(tmp_path, "first").end()
    address = dashboard(tmp_path)
    page.goto(address)
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Light or dark", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto(f"{address}/runs/first/overview")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
