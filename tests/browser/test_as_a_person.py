"""A running job viewed and controlled by a user, from the Runs page to the report."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from idle_page import wait_until_idle, wait_until_loaded
from launching import PATIENCE, only_run, script, started, wait_for
from playwright.sync_api import Locator, Page, expect

PATIENCE_MS = 1e3 * PATIENCE


def test_a_live_run_is_viewed_analyzed_and_stopped(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    with started((), sys.executable, script("looked_at.py"), folder=tmp_path) as job:
        wait_for(lambda: job.flushed_steps() > 20, "steps")
        page.goto(dashboard(tmp_path / "runs"))
        page.get_by_role("table").get_by_role("link", name=re.compile("looked_at")).click()
        expect(page).to_have_title(re.compile("Overview"))
        wait_until_loaded(page)
        watch_a_rule_fire(page, tmp_path)
        follow_the_finding(page)
        look_at_the_machine(page)
        steer(page, tmp_path)
        stop(page)
        ended = job.wait()
    assert ended.status == 10
    download_the_report(page, tmp_path)


def watch_a_rule_fire(page: Page, folder: Path) -> None:
    insight = page.locator("#rule-nonfinite_origin")
    expect(insight).to_be_attached()
    expect(insight.locator("> summary")).not_to_contain_text("fired")
    page.evaluate("window.wasNeverReloaded = true")
    (folder / "bad").touch()
    expect(insight.locator("> summary")).to_contain_text("fired", timeout=PATIENCE_MS)
    expect(insight.locator("> summary")).to_contain_text("explains exploding_tensor")
    assert page.evaluate("window.wasNeverReloaded")


def follow_the_finding(page: Page) -> None:
    insight = page.locator("#rule-nonfinite_origin")
    if insight.get_attribute("open") is None:
        insight.locator("> summary").click()
    expect(insight).to_contain_text("Criteria")
    expect(insight).to_contain_text("Try:")
    insight.locator("a.chip", has_text=re.compile("cross_entropy|loss")).first.click()
    expect(page).to_have_url(re.compile(r"/tensors\?.*step="))
    expect(page.locator("main")).to_contain_text(re.compile("cross_entropy|loss"))
    expect(page.locator(".chart .plot-container").first).to_be_visible()
    expect(page.locator("main")).to_contain_text("nonfinite_origin")


def look_at_the_machine(page: Page) -> None:
    go_to(page, "Nodes")
    zoomed, other = (page.locator(f'.chart[data-chart="{name}"]') for name in ("heat_map", "metrics_over_time"))
    for chart in (zoomed, other):
        expect(chart.first.locator(".plot-container")).to_be_visible()
    before = x_range(other.first)
    wait_for(lambda: zoom(page, zoomed.first), "a frame")
    wait_for(lambda: x_range(other.first) == x_range(zoomed.first), "the other chart follows")
    assert span(x_range(other.first)) < span(before)
    page.get_by_role("button", name="Whole run", exact=True).click()
    page.get_by_role("button", name="Select interval", exact=True).click()
    drag(page, other.first, 0.2, 0.9)
    panel = page.get_by_label("Selected interval", exact=True)
    expect(panel).to_contain_text("forward")
    expect(panel).to_contain_text("backward")


def zoom(page: Page, chart: Locator) -> bool:
    """Return whether the page has a range: a chart redrawn under the pointer misses the drag."""
    drag(page, chart, 0.3, 0.6)
    wait_until_idle(page)
    return "from=" in page.url


def steer(page: Page, folder: Path) -> None:
    page.get_by_role("button", name="Controls", exact=True).click()
    controls = page.get_by_role("dialog", name="Controls", exact=True)
    controls.get_by_label(re.compile("^Interval")).select_option(label="100 ms")
    controls.get_by_role("button", name="Set", exact=True).click()
    asked = controls.locator("[data-requests] > li[data-request]")
    expect(asked.first.locator(".badge")).to_have_text("applied", timeout=PATIENCE_MS)
    expect(controls.locator('[data-live-part="interval"]')).to_have_text("100 ms")
    controls.get_by_label("Steps", exact=True).fill("2")
    controls.get_by_role("button", name="Profile", exact=True).click()
    expect(asked).to_have_count(2)
    expect(controls.locator("[data-requests]")).not_to_contain_text("pending", timeout=PATIENCE_MS)
    wait_for(lambda: only_run(folder / "runs").profiles().num_rows, "the window is written")
    controls.get_by_role("button", name="Close controls", exact=True).click()
    go_to(page, "Profiles")
    page.locator("#windows-table").get_by_role("link", name="operators", exact=True).click()
    expect(page.locator("#operators-table")).to_contain_text("aten::addmm")
    wait_until_loaded(page)


def stop(page: Page) -> None:
    page.get_by_role("button", name="Controls", exact=True).click()
    page.get_by_role("button", name="Stop job…", exact=True).click()
    question = page.get_by_role("dialog", name="Stop this job?", exact=True)
    expect(question.get_by_role("button", name="Cancel", exact=True)).to_be_focused()
    question.get_by_role("button", name="Stop job", exact=True).click()
    expect(page.locator('header [data-live="status"]')).to_have_text("Stopped", timeout=PATIENCE_MS)


def download_the_report(page: Page, folder: Path) -> None:
    go_to(page, "Reports")
    whole = page.locator("#reports-table").get_by_role("row", name=re.compile("Full report"))
    whole.get_by_role("button", name="Generate", exact=True).click()
    page.wait_for_url("**/reports?show=report", timeout=PATIENCE_MS)
    with page.expect_download() as download:
        whole.get_by_role("link", name="Download", exact=True).click()
    place = folder / "report.html"
    download.value.save_as(place)
    assert "nonfinite_origin" in place.read_text()


def go_to(page: Page, title: str) -> None:
    page.get_by_role("navigation", name="Pages of the run").get_by_role("link", name=title, exact=True).click()
    expect(page).to_have_title(re.compile(title))
    wait_until_loaded(page)


def drag(page: Page, chart: Locator, start: float, end: float) -> None:
    """Drag over a chart from one share of its width to another."""
    chart.scroll_into_view_if_needed()
    wait_until_idle(page)
    box = chart.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, middle, steps=8)
    page.mouse.up()
    time.sleep(0.2)  # Plotly distinguishes a drag from a double click by time


def x_range(chart: Locator) -> list[Any]:
    """Return the visible range of a chart's axis."""
    found: list[Any] = json.loads(
        chart.evaluate(
            "place => JSON.stringify((place.querySelector('.js-plotly-plot') ?? place)._fullLayout.xaxis.range)"
        )
    )
    return found


def span(between: list[Any]) -> float:
    from datetime import datetime

    start, end = (datetime.fromisoformat(str(moment)) for moment in between)
    return (end - start).total_seconds()
