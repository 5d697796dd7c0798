"""Ranks page in a browser: straggler, sorting, single worker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from live_runs import end, training_parts, write_live_run
from playwright.sync_api import Page, expect
from timelines import merge_by_time, training

USUAL = {"data": 5.0, "backward": 40.0, "collective": 55.0}
SLOW = {"data": 55.0, "backward": 40.0, "collective": 5.0}


def test_the_slowest_rank_is_named_and_drawn(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    ranks = [training([SLOW if rank == 60 else USUAL] * 12, worker=f"rank{rank}-{rank}") for rank in range(70)]
    end(write_live_run(tmp_path, "first", merge_by_time(*ranks)), 20)
    page.goto(f"{dashboard(tmp_path)}/runs/first/ranks")
    expect(page.locator("main")).to_contain_text("Rank 60 is the slowest")
    expect(page.locator("main")).to_contain_text("The charts show the 32 slowest and the 32 fastest")
    for name in ("rank_step_times", "rank_times", "rank_durations", "replicas"):
        chart = page.locator(f'.chart[data-chart="{name}"]')
        chart.scroll_into_view_if_needed()
        expect(chart.locator(".plot-container")).to_be_visible()
    table = page.locator("#ranks-table tbody tr")
    expect(table).to_have_count(50)
    page.get_by_role("link", name="Next", exact=True).click()
    expect(page).to_have_url(re.compile("page=2"))
    expect(table).to_have_count(20)
    page.get_by_role("link", name="by rank", exact=True).click()
    expect(table.first).to_contain_text("rank 0")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_single_worker_shows_a_message(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    end(write_live_run(tmp_path, "first", training_parts(10)), 10)
    page.goto(f"{dashboard(tmp_path)}/runs/first/ranks")
    alone = page.locator("#live")
    expect(alone.get_by_text("This run has one worker")).to_be_visible()
    expect(page.locator('.chart[data-chart="rank_durations"] .plot-container')).to_be_visible()
