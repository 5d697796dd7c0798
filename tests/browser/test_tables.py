"""Tables in a browser: sorting, filtering and length, kept on live updates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import malicious_inputs
from playwright.sync_api import Page, expect

from leadline.testing.runs import START_NS, Capture, DetailedProfile, RunWriter


def column(page: Page, table: str, place: int) -> list[str]:
    """Return the visible cells of a column from top to bottom."""
    cells = page.locator(f"#{table} tbody tr:visible > :nth-child({place})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_names_sort_naturally_and_numbers_by_size(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    shapes = {"w10": (10,), "w9": (9, 100), "w1": ()}
    writer = RunWriter(tmp_path / "run", shapes=shapes)
    writer.write_all([Capture(0, {name: {"l2": 1.0} for name in shapes})]).end()
    page.goto(f"{dashboard(tmp_path)}/runs/run/tensors")
    head = page.locator("#tensor-table th", has_text="Name")
    head.get_by_role("button").click()
    assert column(page, "tensor-table", 1) == ["w1", "w9", "w10"]
    expect(head).to_have_attribute("aria-sort", "ascending")
    head.get_by_role("button").click()
    assert column(page, "tensor-table", 1) == ["w10", "w9", "w1"]
    expect(head).to_have_attribute("aria-sort", "descending")
    page.locator("#tensor-table th", has_text="Elements").get_by_role("button").click()
    assert column(page, "tensor-table", 1) == ["w9", "w10", "w1"]
    expect(head).to_have_attribute("aria-sort", "none")


def test_the_keyboard_sorts(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    RunWriter(tmp_path / "run").write_all([Capture(0, {name: {"l2": 1.0} for name in ("b", "a")})]).end()
    page.goto(f"{dashboard(tmp_path)}/runs/run/tensors")
    page.locator("#tensor-table th button").first.focus()
    page.keyboard.press("Enter")
    assert column(page, "tensor-table", 1) == ["a", "b"]
    page.keyboard.press("Space")
    assert column(page, "tensor-table", 1) == ["b", "a"]


def test_long_tables_are_cut_until_all_rows_are_requested(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    names = [f"layer{number}.{kind}" for number in range(50) for kind in ("weight", "bias")]
    calls = [(name, 10.0 * index, 5.0) for index, name in enumerate(names)]
    RunWriter(tmp_path / "run").write_all([DetailedProfile("d", 0, START_NS, calls)]).end()
    page.goto(f"{dashboard(tmp_path)}/runs/run/profiles?view=operators")
    rows = page.locator("#operators-table tbody tr:visible")
    expect(rows).to_have_count(25)
    field = page.get_by_role("searchbox", name="filter rows")
    field.fill("BIAS layer4")  # searches the rows that are cut off, too
    expect(rows).to_have_count(11)
    assert set(column(page, "operators-table", 3)) == {f"layer{index}.bias" for index in (4, *range(40, 50))}
    expect(page.locator("output")).to_have_text("11 of 100")
    field.fill("")
    expect(rows).to_have_count(25)
    expect(page.locator("output")).to_have_text("")
    page.get_by_role("button", name="Show all 100 rows").click()
    expect(rows).to_have_count(100)


def test_order_filter_and_focus_are_kept_on_update(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    run = tmp_path / "run"
    RunWriter(run).write_all([Capture(0, {"a": {"l2": 1.0}})])
    for name, judged in (("first", 3), ("second", 9)):
        malicious_inputs.write_rule(str(run), name, judged_steps=judged)
    page.goto(f"{dashboard(tmp_path)}/runs/run/rules")
    head = page.locator("#rules-table th", has_text="Steps evaluated")
    head.get_by_role("button").click()
    head.get_by_role("button").focus()
    assert column(page, "rules-table", 1) == ["second", "first"]
    malicious_inputs.write_rule(str(run), "third", judged_steps=5)
    expect(page.locator("#rules-table tbody tr")).to_have_count(3)
    assert column(page, "rules-table", 1) == ["second", "third", "first"]
    expect(page.locator("#rules-table th", has_text="Steps evaluated")).to_have_attribute("aria-sort", "descending")
    expect(page.locator("#rules-table th", has_text="Steps evaluated").get_by_role("button")).to_be_focused()
