"""Charts in a browser: shared axes, selected intervals, live updates, ranges in the URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from idle_page import wait_until_idle
from launching import wait_for
from live_runs import LOOP_NS, PHASES, START_NS, end, finding, judge, training_parts, write_live_run
from playwright.sync_api import Locator, Page, expect

from leadline.records.event import Event
from leadline.testing.runs import SECOND_NS, TimelineEvent

_RANGE = "place => place.querySelector('.plot')._fullLayout.xaxis.range.map((each) => new Date(each).getTime())"
_LINES = """place => place.querySelector('.plot')._fullData
    .filter((trace) => trace.mode.includes('lines') && !trace.fill.includes('to'))
    .map((trace) => Array.from(trace.y))"""
_PLACES = """place => Array.from(place.querySelector('.plot')._fullData
    .find((trace) => trace.mode.includes('lines') && !trace.fill.includes('to')).x)"""
_TITLED = (
    """title => document.querySelector('.chart[data-chart="metric"] .plot')?._fullLayout.xaxis.title.text === title"""
)
START_MS = START_NS / 1e6


@pytest.fixture
def nodes(tmp_path: Path, dashboard: Callable[..., str]) -> str:
    """Return the URL of the Nodes page of an ended run of forty seconds."""
    end(write_live_run(tmp_path, "first", training_parts(40)), 40)
    return f"{dashboard(tmp_path)}/runs/first/nodes"


def chart(page: Page, name: str) -> Locator:
    found = page.locator(f'.chart[data-chart="{name}"]').first
    found.scroll_into_view_if_needed()
    expect(found.locator(".plot-container")).to_be_visible()
    expect(found.locator(".modebar-btn[data-title*='Share']")).to_have_count(0)  # Plotly's upload to its cloud
    wait_until_idle(page)
    return found


def shown(place: Locator) -> list[float]:
    """Return the visible range of a chart, in seconds since the start of the run."""
    found: list[float] = place.evaluate(_RANGE)
    return [round((moment - START_MS) / 1e3, 2) for moment in found]


def draw(page: Page, place: Locator, start: float, end: float) -> None:
    box = place.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, middle, steps=8)
    page.mouse.up()


def expect_shown(page: Page, place: Locator, expected: list[float]) -> None:
    page.wait_for_function(
        """([place, expected]) => place.querySelector('.plot')._fullLayout.xaxis.range.every(
            (each, at) => Math.abs(new Date(each).getTime() - expected[at]) < 30)""",
        arg=[place.element_handle(), [START_MS + 1e3 * seconds for seconds in expected]],
    )


def double_click(page: Page, place: Locator) -> bool:
    """Return whether a double click was recognized: Plotly detects it by time, which may fail on a busy machine."""
    place.locator(".nsewdrag").first.dblclick()
    return "from=" not in page.url


def test_one_chart_is_zoomed_and_the_others_follow_with_finer_data(nodes: str, page: Page) -> None:
    page.goto(nodes)
    cpu, heat_map = chart(page, "metrics_over_time"), chart(page, "heat_map")
    whole = shown(cpu)
    assert shown(heat_map) == whole
    chart(page, "metrics_over_time")
    with page.expect_response(re.compile(r"/charts/heat_map.*start_ns=")) as finer:
        draw(page, cpu, 0.25, 0.5)
        page.wait_for_function("() => new URLSearchParams(location.search).has('from')")
    assert finer.value.ok
    seen = shown(cpu)
    assert (seen[1] - seen[0]) / (whole[1] - whole[0]) == pytest.approx(0.25, abs=0.02)
    expect_shown(page, heat_map, seen)
    wait_for(lambda: double_click(page, cpu), "the whole run")
    expect_shown(page, heat_map, whole)
    assert "from=" not in page.url


def test_lines_are_smoothed_over_their_values_which_stay_behind(nodes: str, page: Page) -> None:
    page.goto(nodes.removesuffix("/nodes"))
    losses = chart(page, "metric")
    (values,) = lines(losses)
    losses.get_by_role("slider", name="smooth loss", exact=True).fill("0.75")
    page.wait_for_function(f"([place]) => ({_LINES})(place).length === 2", arg=[losses.element_handle()])
    behind, smooth = lines(losses)
    assert behind == values == pytest.approx([2 / (step + 1) for step in range(len(values))], rel=1e-6)
    weights = [0.75**age for age in range(len(values))]
    for step in (0, 1, 10, len(values) - 1):
        weighed = zip(reversed(values[: step + 1]), weights, strict=False)
        mean = sum(value * weight for value, weight in weighed) / sum(weights[: step + 1])
        assert smooth[step] == pytest.approx(mean, rel=1e-6)


def test_losses_are_drawn_over_the_time_since_the_first_step_and_over_the_time_of_day(nodes: str, page: Page) -> None:
    page.goto(nodes.removesuffix("/nodes"))
    losses = chart(page, "metric")
    along = losses.get_by_role("combobox", name="horizontal axis of loss", exact=True)
    along.select_option("time since start")
    page.wait_for_function(_TITLED, arg="seconds since the first step")
    elapsed = losses.evaluate(_PLACES)
    assert elapsed == pytest.approx([0.15 * step for step in range(len(elapsed))], abs=0.002)
    along.select_option("time of day")
    page.wait_for_function(_TITLED, arg="time of day")
    assert losses.evaluate(_PLACES) == pytest.approx(
        [LOOP_NS / 1e6 + 150 * step for step in range(len(elapsed))], abs=2
    )
    along.select_option("step")
    page.wait_for_function(_TITLED, arg="step")
    assert losses.evaluate(_PLACES) == list(range(len(elapsed)))


def lines(place: Locator) -> list[list[float]]:
    """Return the values of the lines of a chart."""
    found: list[list[float]] = place.evaluate(_LINES)
    return found


def test_the_url_contains_the_range(nodes: str, page: Page) -> None:
    page.goto(f"{nodes}?from={(START_NS + 10 * SECOND_NS) // 1_000_000}&to={(START_NS + 16 * SECOND_NS) // 1_000_000}")
    assert shown(chart(page, "metrics_over_time")) == [10, 16]
    page.get_by_role("button", name="Zoom in", exact=True).click()
    expect_shown(page, chart(page, "heat_map"), [11.5, 14.5])
    page.wait_for_url(re.compile("from=2026"))
    page.reload()
    assert shown(chart(page, "metrics_over_time")) == [11.5, 14.5]


def test_keyboard_shortcuts_change_the_range(nodes: str, page: Page) -> None:
    page.goto(f"{nodes}?from={(START_NS + 10 * SECOND_NS) // 1_000_000}&to={(START_NS + 18 * SECOND_NS) // 1_000_000}")
    place = chart(page, "metrics_over_time")
    page.keyboard.press("ArrowRight")
    expect_shown(page, place, [12, 20])
    page.keyboard.press("+")
    expect_shown(page, place, [14, 18])
    page.keyboard.press("-")
    page.keyboard.press("ArrowLeft")
    expect_shown(page, place, [10, 18])
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts", exact=True)
    expect(keys).to_be_visible()
    keys.get_by_role("button", name="Close", exact=True).click()
    expect(keys).to_be_hidden()
    wait_until_idle(page)
    page.keyboard.press("0")
    page.wait_for_function("() => !location.search.includes('from')")


def test_a_selected_interval_shows_its_phases(nodes: str, page: Page) -> None:
    page.goto(nodes)
    place = chart(page, "metrics_over_time")
    page.get_by_role("button", name="Select interval", exact=True).click()
    draw(page, place, 0.5, 0.75)
    panel = page.get_by_label("Selected interval", exact=True)
    expect(panel).to_contain_text("Time breakdown")
    rows = panel.get_by_role("row")
    expect(rows).to_have_count(1 + len(PHASES))
    whole = sum(PHASES.values())
    for words, phase in (("backward", "backward"), ("data loading", "data")):
        expect(rows.filter(has_text=words)).to_contain_text(f"{100 * PHASES[phase] / whole:.0f} %")
    before = shown(place)
    panel.get_by_role("button", name="Zoom to interval", exact=True).click()
    page.wait_for_function("() => location.search.includes('from')")
    wait_until_idle(page)
    after = shown(place)
    assert after[1] - after[0] == pytest.approx((before[1] - before[0]) / 4, rel=0.05)
    panel.get_by_role("button", name="Close", exact=True).click()
    expect(panel).to_be_hidden()


def test_times_are_shown_in_the_viewers_zone(nodes: str, page: Page, browser: Any) -> None:
    cookies = page.context.storage_state()
    context = browser.new_context(timezone_id="Asia/Kolkata", locale="en-GB", storage_state=cookies)
    there = context.new_page()
    there.goto(nodes)
    place = chart(there, "metrics_over_time")
    ticks = place.locator(".xtick text").all_text_contents()
    assert ticks
    assert all(tick.startswith("16:3") for tick in ticks), ticks  # 11:06:40 UTC and later
    expect(there.locator("[data-range-label]").first).to_contain_text(re.compile(r"16:36:4\d.*(GMT\+5:30|IST)"))
    assert shown(place)[0] == pytest.approx(0, abs=1.0)
    context.close()


def test_a_chart_without_data_shows_the_reason(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    writer = write_live_run(tmp_path, "first", training_parts(10, gpus=0))
    writer.write_node("node-1", gpus=[], absent={"gpu": "no NVIDIA driver answers"})
    page.goto(f"{dashboard(tmp_path)}/runs/first/nodes")
    expect(page.locator(".page-head").first).to_contain_text("no GPU on this node: no NVIDIA driver answers")
    expect(page.locator(".chart .no-data", has_text="no step was timed")).to_have_count(0)


def test_charts_follow_a_growing_run_or_keep_the_range(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    writer = write_live_run(tmp_path, "first", training_parts(20))
    page.goto(f"{dashboard(tmp_path)}/runs/first/nodes")
    place = chart(page, "metrics_over_time")
    assert shown(place)[1] == pytest.approx(20, abs=1.0)
    writer.write_all(training_parts(20, first_second=20))
    page.wait_for_function(
        "([place, end]) => new Date(place.querySelector('.plot')._fullLayout.xaxis.range[1]).getTime() > end",
        arg=[place.element_handle(), START_MS + 38_000],
    )
    page.get_by_role("button", name="Zoom in", exact=True).click()
    page.wait_for_function("() => location.search.includes('from')")
    wait_until_idle(page)
    seen = shown(place)
    writer.write_all(training_parts(20, first_second=40))
    page.wait_for_timeout(4000)  # the range must not change
    assert shown(place) == seen
    page.get_by_role("button", name="Follow live", exact=True).click()
    page.wait_for_function(
        "([place, end]) => new Date(place.querySelector('.plot')._fullLayout.xaxis.range[1]).getTime() > end",
        arg=[place.element_handle(), START_MS + 58_000],
    )
    after = shown(place)
    assert after[1] - after[0] == pytest.approx(seen[1] - seen[0], abs=0.1)


def test_charts_use_the_page_theme(nodes: str, page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(nodes)
    place = chart(page, "metrics_over_time")
    colour = "place => place.querySelector('.plot')._fullLayout.font.color"
    light = place.evaluate(colour)
    page.get_by_role("button", name="Light or dark", exact=True).click()
    page.wait_for_function(
        "([place, before]) => place.querySelector('.plot')._fullLayout.font.color !== before",
        arg=[place.element_handle(), light],
    )


def test_text_of_a_run_is_escaped_in_the_selection(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    evil = "<img src=x onerror=\"document.title='owned'\">"
    writer = write_live_run(
        tmp_path, "first", [*training_parts(20), TimelineEvent(Event(evil, 3, START_NS + 5 * SECOND_NS, SECOND_NS))]
    )
    judge(writer, [{**finding(40, START_NS + 8 * SECOND_NS), "message": evil}])
    end(writer, 20)
    page.goto(f"{dashboard(tmp_path)}/runs/first/nodes")
    chart(page, "metrics_over_time")
    page.get_by_role("button", name="Analyze range", exact=True).click()
    panel = page.get_by_label("Selected interval", exact=True)
    expect(panel.get_by_role("link")).to_have_text(f"exploding_tensor, step 40: {evil}")
    expect(panel.get_by_role("listitem").filter(has_text="(1 s)").filter(has_text="<img")).to_be_visible()
    assert panel.locator("img").count() == 0
    assert "owned" not in page.title()
