"""Tensors page in a browser: layer heat map, tensor page, download."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import page_runs
from idle_page import wait_until_idle
from playwright.sync_api import Page, expect

from leadline.testing.runs import Capture, RunWriter


def test_a_click_on_a_heat_map_cell_opens_the_tensor_at_that_step(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    page_runs.write_full_run(tmp_path / "story")
    page.goto(f"{dashboard(tmp_path)}/runs/story/tensors")
    heat_map = page.locator("#heat-map")
    heat_map.scroll_into_view_if_needed()
    expect(heat_map.locator(".plot-container")).to_be_visible()
    wait_until_idle(page)
    field = heat_map.locator(".nsewdrag").first
    box = field.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + box["height"] * 0.25)
    page.mouse.click(box["x"] + box["width"] * 0.95, box["y"] + box["height"] * 0.25)
    expect(page).to_have_url(re.compile(r"name=gradient%2Fa.weight&step=9"))
    expect(page.get_by_role("heading", name="At step 9", exact=True)).to_be_visible()


def test_another_statistic_is_drawn_without_a_reload_and_kept_in_the_url(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    page_runs.write_full_run(tmp_path / "story")
    page.goto(f"{dashboard(tmp_path)}/runs/story/tensors?name=gradient/b.weight")
    chart = page.locator("#over-steps")
    expect(chart.locator(".plot-container")).to_be_visible()
    page.evaluate("window.wasNeverReloaded = true")
    with page.expect_response(re.compile(r"charts/tensor.json.*statistic=abs_mean%2Cl2|statistic=l2%2Cabs_mean")):
        page.get_by_label("l2", exact=True).check()
    expect(chart.locator(".legendtext")).to_have_count(2)
    assert page.evaluate("window.wasNeverReloaded")
    page.reload()
    expect(page.get_by_label("l2", exact=True)).to_be_checked()
    expect(chart.locator(".legendtext")).to_have_count(2)


def test_the_raw_tensor_is_downloaded_as_numpy_reads_it(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    page_runs.write_full_run(tmp_path / "story")
    page.goto(f"{dashboard(tmp_path)}/runs/story/tensors?name=a.weight&step=5")
    with page.expect_download() as waiting:
        page.get_by_role("link", name=re.compile(r"^Download \.npy")).click()
    path = tmp_path / "got.npy"
    waiting.value.save_as(path)
    assert np.array_equal(np.load(path, allow_pickle=False), page_runs.WEIGHT + 5)


def test_a_live_run_updates_its_charts(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    writer = RunWriter(tmp_path / "run")
    writer.write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(5)])
    page.goto(f"{dashboard(tmp_path)}/runs/run/tensors")
    chart = page.locator("#metric-loss")
    expect(chart.locator(".plot-container")).to_be_visible()
    writer.write_all([Capture(step, {"loss": {"value": 2.0}}) for step in range(5, 30)])
    page.wait_for_function(
        "() => document.querySelector('#metric-loss .js-plotly-plot')?._fullLayout.xaxis.range[1] > 28"
    )


def test_two_runs_are_compared(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    page_runs.write_full_run(tmp_path / "one")
    page_runs.write_full_run(tmp_path / "two")
    page.goto(f"{dashboard(tmp_path)}/compare")
    page.get_by_label("Run 1", exact=True).fill("one")
    page.get_by_label("Run 2", exact=True).fill("two")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator("#scalar-1 .plot-container")).to_be_visible()
    for side in (1, 2):
        page.locator(f"#heat-map-{side}").scroll_into_view_if_needed()
        expect(page.locator(f"#heat-map-{side} .plot-container")).to_be_visible()
    expect(page.locator("#rules-of-all")).to_contain_text("gradient/a.weight vanishes")


def test_a_scalar_starts_with_its_value_and_few_cells_do_not_crowd_the_axis(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    captures = [Capture(step, {"loss": {"value": 1.0 / (step + 1)}}) for step in range(120)]
    gradients = {"gradient/a.weight": {"abs_mean": 0.1}, "loss": {"abs_mean": 1.0, "value": 1.0}}
    captures[:2] = [Capture(step, gradients) for step in range(2)]
    RunWriter(tmp_path / "run").write_all(captures).end()
    address = f"{dashboard(tmp_path)}/runs/run/tensors"
    page.goto(f"{address}?name=loss")
    expect(page.get_by_label("value", exact=True)).to_be_checked()
    expect(page.get_by_label("abs_mean", exact=True)).not_to_be_checked()
    expect(page.get_by_role("heading", name="Histogram over steps", exact=True)).to_have_count(0)
    page.goto(address)
    heat_map = page.locator("#heat-map")
    heat_map.scroll_into_view_if_needed()
    expect(heat_map.locator(".plot-container")).to_be_visible()
    wait_until_idle(page)
    page.wait_for_function(  # the axis grows when the chart of the loss is loaded
        "() => { const ticks = document.querySelectorAll('#heat-map .xtick').length; return ticks > 0 && ticks < 20; }"
    )
