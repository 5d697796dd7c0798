"""Nodes page in a browser: device selection, node links, last steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from idle_page import wait_until_idle
from live_runs import end, training_parts, write_live_run
from playwright.sync_api import Locator, Page, expect
from timelines import merge_by_time


def names(place: Locator) -> list[str]:
    """Return the series of a chart."""
    found: list[str] = place.evaluate(
        "place => place.querySelector('.plot').data.filter((one) => one.showlegend !== false).map((one) => one.name)"
    )
    return found


def test_cores_and_gpus_are_selectable(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    end(write_live_run(tmp_path, "first", training_parts(10)), 10)
    page.goto(f"{dashboard(tmp_path)}/runs/first/nodes")
    cpu = page.locator("#chart-cpu")
    expect(cpu.locator(".plot-container")).to_be_visible()
    wait_until_idle(page)
    assert names(cpu) == ["all cores"]
    selector = page.locator('[data-selector="chart-cpu"]')
    selector.locator("summary").click()
    for core in ("core1", "core3"):
        selector.get_by_label(core, exact=True).check()
    page.wait_for_function("() => document.querySelector('#chart-cpu .plot')?.data?.length === 2")
    assert names(cpu) == ["core 1", "core 3"]
    expect(selector.locator("summary")).to_contain_text("2 of 4")
    selector.get_by_role("button", name="Mean", exact=True).click()
    page.wait_for_function("() => document.querySelector('#chart-cpu .plot')?.data?.length === 1")
    gpu = page.locator('[data-selector="chart-gpu"]')
    gpu.locator("summary").click()
    gpu.get_by_role("button", name="All", exact=True).click()
    page.wait_for_function("() => document.querySelector('#chart-gpu .plot')?.data?.length === 2")


def test_another_node_is_shown_in_the_same_range(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    parts = merge_by_time(
        training_parts(20), [part for part in training_parts(20, cores=7, node="node-2") if hasattr(part, "channel")]
    )
    end(write_live_run(tmp_path, "first", parts, nodes=("node-1", "node-2")), 20)
    page.goto(f"{dashboard(tmp_path)}/runs/first/nodes")
    page.get_by_role("button", name="Zoom in", exact=True).click()
    page.wait_for_url("**from=*")
    frame = page.url.partition("from=")[2]
    page.get_by_role("navigation", name="Nodes", exact=True).get_by_role("link", name="algo-2 (node-2)").click()
    page.wait_for_url("**node=node-2*")
    assert page.url.partition("from=")[2] == frame
    expect(page.locator('[data-selector="chart-cpu"] summary')).to_contain_text("mean of 7 cores")


def test_the_last_steps_are_drawn_by_phase(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    end(write_live_run(tmp_path, "first", training_parts(40)), 40)
    page.goto(f"{dashboard(tmp_path)}/runs/first/nodes")
    steps = page.locator("#chart-step-timeline")
    steps.scroll_into_view_if_needed()
    expect(steps.locator(".plot-container")).to_be_visible()
    count = (
        "() => Math.max(...document.querySelector('#chart-step-timeline .plot').calcdata.map((each) => each.length))"
    )
    assert page.evaluate(count) == 30
    assert {"data loading", "forward", "backward", "optimizer"} <= set(names(steps))
    page.locator('[data-sets="steps"]').select_option("100")
    page.wait_for_function(f"() => ({count})() === 100")


def test_the_page_fits_in_1280_pixels_and_charts_have_labels(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    end(write_live_run(tmp_path, "first", training_parts(10)), 10)
    page.goto(f"{dashboard(tmp_path)}/runs/first/nodes")
    cpu = page.locator("#chart-cpu")
    expect(cpu).to_have_attribute("aria-label", "CPU; all cores: 40")
    expect(cpu).to_have_attribute("tabindex", "0")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


_WIDTHS = """() => [...document.querySelectorAll('.grid.usage')].map((grid) => {
  const rows = {};
  for (const card of grid.children) {
    const box = card.getBoundingClientRect();
    rows[box.top] = Math.max(rows[box.top] ?? 0, box.right);
  }
  return Object.values(rows).map((right) => Math.round(grid.getBoundingClientRect().right - right));
})"""
"""The empty space at the right of each row of cards, in px."""


def test_rows_of_cards_have_no_empty_space(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    end(write_live_run(tmp_path, "first", training_parts(10)), 10)
    end(write_live_run(tmp_path, "second", training_parts(10, gpus=0)), 10)
    address = dashboard(tmp_path)
    for width in (1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        for run in ("first", "second"):
            page.goto(f"{address}/runs/{run}/nodes")
            spaces = page.evaluate(_WIDTHS)
            assert spaces
            assert all(space == 0 for grid in spaces for space in grid), (width, run, spaces)
