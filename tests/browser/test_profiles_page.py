"""Profiles page in a browser: from a window to its operators, functions and trace."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import page_runs
from playwright.sync_api import Page, expect

from leadline.testing.runs import RunWriter


def test_a_window_links_to_its_operators_which_can_be_regrouped(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    page_runs.write_full_run(tmp_path / "story")
    page.goto(f"{dashboard(tmp_path)}/runs/story/profiles")
    window = page.locator("#windows-table tr[data-window=detailed-3]")
    window.get_by_role("link", name="operators", exact=True).click()
    expect(page.locator("#operators-table tbody tr")).to_have_count(2)
    expect(page.locator("#window-timeline .plot-container")).to_be_visible()
    page.get_by_role("checkbox", name="operator", exact=True).uncheck()
    page.get_by_role("checkbox", name="module", exact=True).uncheck()
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#operators-table tbody tr")).to_have_count(1)


def test_the_flame_graph_shows_the_function_and_the_table_its_callers(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    page_runs.write_full_run(tmp_path / "story")
    page_runs.write_python_window(tmp_path / "story", "pyinstrument", "brew_coffee")
    page.goto(f"{dashboard(tmp_path)}/runs/story/profiles?view=python")
    expect(page.locator("#flame .slicetext", has_text="brew_coffee").first).to_be_visible()
    page.locator("#functions-table").get_by_role("link", name="brew_coffee").first.click()
    expect(page.locator("#callers-table")).to_contain_text("Callers of brew_coffee")


def test_the_trace_is_downloaded(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    page_runs.write_full_run(tmp_path / "story")
    page.goto(f"{dashboard(tmp_path)}/runs/story/profiles")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download the whole run as a trace", exact=True).click()
    path = tmp_path / "trace.json.gz"
    waiting.value.save_as(path)
    names = {event["name"] for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]}
    assert {"aten::conv", "aten::relu"} <= names


def test_a_new_window_is_shown_without_a_reload(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    RunWriter(tmp_path / "run")
    page.goto(f"{dashboard(tmp_path)}/runs/run/profiles")
    windows = page.locator("#live")
    expect(windows.get_by_text("No profiles were recorded")).to_be_visible()
    page_runs.write_python_window(tmp_path / "run", "cprofile")
    expect(page.locator("#windows-table tbody tr")).to_have_count(1)
