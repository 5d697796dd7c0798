"""Live parts of a page: an update keeps what the viewer has done, and a restarted dashboard is found again."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from idle_page import wait_until_idle
from launching import environment
from live_runs import START_NS, end, finding, judge, training_parts, write_live_run
from playwright.sync_api import Page, expect

from leadline.testing.runs import SECOND_NS

TOKEN = "of-a-restarted-dashboard"
FOUND = finding(40, START_NS + 8 * SECOND_NS)


def test_an_update_keeps_charts_focus_scroll_and_open_details(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    writer = write_live_run(tmp_path, "first", training_parts(20))
    judge(writer, [FOUND])
    page.goto(f"{dashboard(tmp_path)}/runs/first/overview")
    rule = page.locator("#rule-exploding_tensor")
    rule.locator("> summary").click()
    chart = page.locator('.chart[data-chart="metric"]')
    chart.scroll_into_view_if_needed()
    expect(chart.locator(".plot-container")).to_be_visible()
    wait_until_idle(page)
    chart.locator(".plot").evaluate("plot => { plot.isTheFirst = true; }")
    link = rule.locator("a.chip").first
    link.focus()
    page.evaluate("scrollTo(0, 300)")
    judge(writer, [FOUND, {**FOUND, "id": 2, "step": 90, "message": "loss is infinite"}])
    expect(rule).to_contain_text("loss is infinite")
    expect(rule).to_have_attribute("open", "")
    expect(link).to_be_focused()
    assert chart.locator(".plot").evaluate("plot => plot.isTheFirst")
    assert page.evaluate("scrollY") == 300


def test_selected_text_is_not_replaced(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    writer = write_live_run(tmp_path, "first", training_parts(10))
    page.goto(f"{dashboard(tmp_path)}/runs/first/overview")
    summary = page.locator("#rule-exploding_tensor > summary")
    expect(summary).to_contain_text("clear")
    page.locator("h2#insights").evaluate("heading => getSelection().selectAllChildren(heading)")
    judge(writer, [FOUND])
    page.wait_for_timeout(4000)  # the update must wait
    expect(summary).to_contain_text("clear")
    assert page.evaluate("getSelection().toString()") == "Insights"
    page.evaluate("getSelection().removeAllRanges()")
    expect(summary).to_contain_text("fired")


def test_a_loss_that_appears_later_gets_its_chart(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    writer = write_live_run(tmp_path, "first", [])
    page.goto(f"{dashboard(tmp_path)}/runs/first/overview")
    expect(page.get_by_text("No step was timed yet, so")).to_be_visible()
    writer.write_all(training_parts(10))
    chart = page.locator('.chart[data-chart="metric"]')
    chart.scroll_into_view_if_needed()
    expect(chart.locator(".plot-container")).to_be_visible()


def test_no_update_of_an_ended_run(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    end(write_live_run(tmp_path, "first", training_parts(10)), 10)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if request.resource_type == "xhr" else None)
    page.goto(f"{dashboard(tmp_path)}/runs/first/overview")
    page.wait_for_timeout(4000)
    assert requests == []


def test_a_page_continues_when_the_dashboard_is_restarted(tmp_path: Path, page: Page) -> None:
    writer = write_live_run(tmp_path, "first", training_parts(10))
    address, process = _serve(tmp_path, 0)
    page.context.request.get(f"{address}/", params={"token": TOKEN})
    page.goto(f"{address}/runs/first/overview")
    summary = page.locator("#rule-exploding_tensor > summary")
    expect(summary).to_contain_text("clear")
    page.evaluate("window.wasNeverReloaded = true")
    page.expected_errors = re.compile("ERR_|htmx:(sendError|afterRequest)")  # type: ignore[attr-defined]
    _end(process)
    judge(writer, [FOUND])
    page.get_by_role("button", name="Controls", exact=True).click()
    expect(page.locator("#controls")).to_contain_text("is leadline ui still running?")
    _address, process = _serve(tmp_path, int(address.rpartition(":")[2]))
    try:
        expect(summary).to_contain_text("fired")
        assert page.evaluate("window.wasNeverReloaded")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Controls", exact=True).click()
        expect(page.locator("#controls")).to_contain_text("No requests so far.")
    finally:
        _end(process)


def test_hidden_pages_release_their_connection(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    writer = write_live_run(tmp_path, "first", training_parts(10))
    page.add_init_script(
        """const Source = EventSource; window.sources = [];
        window.EventSource = class extends Source { constructor(url) { super(url); sources.push(this); } };
        Object.defineProperty(document, "hidden", { get: () => window.isHidden === true });"""
    )
    page.goto(f"{dashboard(tmp_path)}/runs/first/overview")
    summary = page.locator("#rule-exploding_tensor > summary")
    expect(summary).to_contain_text("clear")
    page.evaluate("window.isHidden = true; document.dispatchEvent(new Event('visibilitychange'))")
    assert page.evaluate("sources.map((source) => source.readyState)") == [2]
    judge(writer, [FOUND])
    page.evaluate("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    expect(summary).to_contain_text("fired")


def _serve(root: Path, port: int) -> tuple[str, subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "leadline", "ui", str(root), "--port", str(port)],
        env=environment(LEADLINE_TOKEN=TOKEN),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"http://[^\s/]+", process.stdout.readline())
    assert found
    return found.group(), process


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
