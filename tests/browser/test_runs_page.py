"""Runs page in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page, expect

from leadline.store import layout
from leadline.store.documents import write_document
from leadline.store.node_lock import node_name
from leadline.testing.runs import START_NS, Capture, RunWriter

SECOND_NS = 1_000_000_000
_BEYOND = """[document.documentElement, ...document.querySelectorAll(".table-wrap")].map(
  (shown) => shown.scrollWidth - shown.clientWidth
)"""
"""How much of the page, and of its table, is beyond the right edge, in px."""


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
    expect(compare).to_have_attribute("href", "/compare?run=lr-0.1&run=lr-0.01")

    live = write_run(tmp_path, "lr-0.001", started_ns=START_NS + 3 * SECOND_NS)
    live.set_status("InProgress", node=node_name())  # of this machine: alive however late the page reads it
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("InProgress")
    expect(page.get_by_role("checkbox", name="Compare lr-0.1", exact=True)).to_be_checked()
    live.end()
    expect(rows.first).to_contain_text("Completed")

    for width in (1280, 1024, 390):
        page.set_viewport_size({"width": width, "height": 800})
        shown = page.evaluate(_BEYOND)
        assert max(shown) <= 0, (width, shown)
        expect(rows.first.locator("td.outcome")).to_be_in_viewport()
    page.set_viewport_size({"width": 1280, "height": 800})

    page.get_by_role("link", name="Run", exact=True).click()
    expect(rows.first).to_contain_text("lr-0.001")
    page.get_by_role("link", name="lr-0.01", exact=True).click()
    expect(page).to_have_title(re.compile(r"^lr-0\.01 · Overview"))


def test_a_run_gets_tags_a_column_and_is_deleted(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    for name in ("first", "second"):
        writer = write_run(tmp_path, name)
        command = ("python", "train.py", "--lr", "0.125")
        write_document(f"{writer.path}/{layout.MANIFEST}", replace(writer.manifest, command=command).to_dict())
        writer.end()
    page.goto(dashboard(tmp_path))
    row = page.locator("table.runs tbody tr").filter(has=page.get_by_role("link", name="first", exact=True))
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name="lr", exact=True).check()
    expect(row).to_contain_text("0.125")
    page.keyboard.press("Escape")
    expect(page.get_by_role("checkbox", name="lr", exact=True)).to_be_hidden()
    expect(page.get_by_text("Columns", exact=True)).to_be_focused()
    row.get_by_role("button", name="Note, tags and deletion of first", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Tags, separated by commas").fill("baseline")
    dialog.get_by_role("button", name="Save", exact=True).click()
    expect(row).to_contain_text("baseline")
    page.reload()
    expect(row).to_contain_text("0.125")
    row.get_by_role("button", name="Note, tags and deletion of first", exact=True).click()
    dialog.get_by_text("Delete this run", exact=True).click()
    dialog.get_by_label("Enter its name to confirm").fill("other")
    page.expected_errors = re.compile("400|htmx:")  # type: ignore[attr-defined]
    dialog.get_by_role("button", name="Delete run", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("enter the name of the run")
    dialog.get_by_label("Enter its name to confirm").fill("first")
    dialog.get_by_role("button", name="Delete run", exact=True).click()
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    assert not (tmp_path / "first").exists()


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
