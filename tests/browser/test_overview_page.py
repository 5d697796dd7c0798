"""Overview page in a browser: contents and live updates."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from live_runs import START_NS, end, finding, judge, training_parts, write_live_run
from playwright.sync_api import Page, expect

from leadline.testing.runs import SECOND_NS


def test_a_rule_fires_without_a_reload_and_links_to_tensor_and_metrics(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    writer = write_live_run(tmp_path, "first", training_parts(20))
    page.goto(f"{dashboard(tmp_path)}/runs/first/overview")
    page.evaluate("window.wasNeverReloaded = true")
    rule = page.locator("#rule-exploding_tensor")
    expect(rule.locator("> summary")).to_contain_text("clear")
    expect(page.get_by_role("heading", name="Job summary", exact=True)).to_be_visible()
    judge(writer, [finding(40, START_NS + 8 * SECOND_NS)])
    expect(rule.locator("> summary")).to_contain_text("fired")
    expect(rule.locator("> summary")).to_contain_text("step 40: loss is NaN")
    rule.locator("> summary").click()
    for words in ("Criteria", "Parameters", "only_nan", "Try:", "a tenth of the learning rate"):
        expect(rule).to_contain_text(words)
    judge(writer, [finding(40, START_NS + 8 * SECOND_NS), {**finding(90, START_NS + 15 * SECOND_NS), "id": 2}])
    expect(rule.locator("> summary")).to_contain_text("2 times")
    expect(rule).to_have_attribute("open", "")
    assert page.evaluate("window.wasNeverReloaded")
    expect(rule.get_by_role("link", name="system metrics at this time").first).to_have_attribute(
        "href", re.compile(r"/runs/first/nodes\?from=.*&to=")
    )
    rule.locator("a.chip").first.click()
    expect(page).to_have_url(re.compile(r"/tensors\?name=loss&step=40"))


def test_a_deep_link_opens_a_rule(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    end(write_live_run(tmp_path, "first", training_parts(10)), 10)
    page.goto(f"{dashboard(tmp_path)}/runs/first/overview#rule-exploding_tensor")
    rule = page.locator("#rule-exploding_tensor")
    expect(rule).to_have_attribute("open", "")
    expect(rule.locator("> summary")).to_be_in_viewport()


_BEYOND = """[...document.querySelectorAll("body *")]
  .filter((shown) => shown.getBoundingClientRect().right > innerWidth && !shown.closest(".table-wrap, nav"))
  .map((shown) => `${shown.tagName} ${shown.className} ${shown.textContent.trim().slice(0, 40)}`)"""
"""What is beyond the right edge of the page, but for tables and tabs, which scroll."""


def test_all_sections_of_a_job_are_shown(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    end(write_live_run(tmp_path, "first", training_parts(60)), 60)
    page.goto(f"{dashboard(tmp_path)}/runs/first/overview")
    parts = page.get_by_label("Job phases", exact=True)
    for words in ("initialization", "imports", "data, model and device setup", "training loop", "finalization"):
        expect(parts).to_contain_text(words)
    expect(page.get_by_role("heading", name="Bottleneck: compute", exact=True)).to_be_visible()
    usage = page.locator("#usage-table")
    expect(usage.get_by_role("row").filter(has_text="GPU 1").first).to_contain_text("79")
    expect(page.get_by_label("Not available for this run").get_by_text("No operators were recorded.")).to_be_visible()
    expect(page.get_by_label("Step phases", exact=True)).to_contain_text("backward")
    for name in ("metric", "progress"):
        place = page.locator(f'.chart[data-chart="{name}"]').first
        place.scroll_into_view_if_needed()
        expect(place.locator(".plot-container")).to_be_visible()
    for width in (1280, 1024, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.reload()
        expect(page.get_by_label("Step phases", exact=True)).to_contain_text("backward")
        beyond = page.evaluate(_BEYOND)
        assert beyond == [], (width, beyond)
        assert page.locator(".run-name").evaluate("name => name.scrollWidth <= name.clientWidth"), width
        right = "cards => Math.max(...cards.map(card => card.getBoundingClientRect().right))"
        cards = page.locator(".grid.two").last.locator("> .card")
        assert cards.last.evaluate("card => card.getBoundingClientRect().right") == cards.evaluate_all(right), width


def test_a_run_without_steps_shows_a_message(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    write_live_run(tmp_path, "first", [])
    page.goto(f"{dashboard(tmp_path)}/runs/first/overview")
    parts = page.get_by_label("Job phases", exact=True)
    expect(parts.get_by_text("No step was timed yet")).to_be_visible()
    missing = page.get_by_label("Not available yet", exact=True)
    expect(missing.get_by_text("No system metrics were recorded yet.")).to_be_visible()
