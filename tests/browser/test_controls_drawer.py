"""Controls drawer on a running job."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from launching import PATIENCE, script, started, wait_for
from playwright.sync_api import Page, expect

from leadline.testing.runs import Capture, RunWriter

OPTIONS = ("--preset", "light", "--no-default-rules", "--rule", "exploding_tensor", "--name", "steered")


def test_interval_profile_and_stop_requests_show_their_status(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    with started(OPTIONS, script("until.py"), str(tmp_path / "end"), folder=tmp_path) as running:
        wait_for(lambda: running.flushed_steps() > 3, "steps")
        page.goto(f"{dashboard(tmp_path / 'runs')}/runs/steered/configure")
        controls = page.get_by_role("button", name="Controls", exact=True)
        controls.focus()
        page.keyboard.press("Enter")
        drawer = page.locator("#controls")
        expect(drawer.get_by_role("button", name="Close controls", exact=True)).to_be_focused()
        requests = drawer.locator("[data-requests] > li[data-request]")

        drawer.get_by_label(re.compile("^Interval")).select_option("100")
        drawer.get_by_role("button", name="Set", exact=True).click()
        expect(requests.first).to_contain_text("sample the machine every 100 ms")
        expect(requests.first.locator(".badge")).to_have_text("applied")

        drawer.get_by_label("Steps", exact=True).fill("3")
        expect(drawer.get_by_text("At most two steps are recommended for operator")).to_be_visible()
        drawer.get_by_label("Steps", exact=True).fill("2")
        expect(drawer.get_by_text("At most two steps are recommended for operator")).to_be_hidden()
        drawer.get_by_role("button", name="Profile", exact=True).click()
        expect(requests.first).to_contain_text(re.compile(r"detailed from the next step, 2 steps.*accepted by", re.S))

        page.expected_errors = re.compile("400")  # type: ignore[attr-defined]
        drawer.get_by_role("textbox", name="or time", exact=True).fill("yesterday")
        drawer.get_by_role("button", name="Profile", exact=True).click()
        expect(drawer.get_by_role("alert")).to_contain_text("yesterday")

        with page.expect_download(timeout=1e3 * PATIENCE) as download:
            drawer.get_by_role("button", name="Download report", exact=True).click()
        assert download.value.suggested_filename == "steered-report.html"

        drawer.get_by_role("button", name="Stop job…", exact=True).click()
        question = page.get_by_role("dialog", name="Stop this job?", exact=True)
        question.get_by_role("button", name="Cancel", exact=True).click()
        expect(question).to_be_hidden()
        assert running.process.poll() is None
        drawer.get_by_role("button", name="Stop job…", exact=True).click()
        question.get_by_role("button", name="Stop job", exact=True).click()
        expect(requests.first).to_contain_text("stop the job")
        expect(requests.first.locator(".badge")).to_have_text("applied")
        running.wait()
        expect(page.locator('header [data-live="status"]')).to_have_text("Stopped")
        page.keyboard.press("Escape")
        expect(drawer).to_be_hidden()
        expect(controls).to_be_focused()


def test_requests_do_not_move_the_forms(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    RunWriter(str(tmp_path / "live")).write_all([Capture(0, {"loss": {"value": 1.0}})])
    page.goto(f"{dashboard(tmp_path)}/runs/live/configure")
    page.get_by_role("button", name="Controls", exact=True).click()
    drawer = page.locator("#controls")
    button = drawer.get_by_role("button", name="Set", exact=True)
    before = button.bounding_box()
    requests = drawer.locator("[data-requests] > li[data-request]")
    for count in range(1, 13):
        button.click()
        expect(requests).to_have_count(count)
        expect(requests.first).to_be_in_viewport()
        assert button.bounding_box() == before


def test_the_form_becomes_a_command_line(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    RunWriter(str(tmp_path / "first")).write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    page.goto(f"{dashboard(tmp_path, '--read-only')}/runs/first/configure")
    page.get_by_role("radio", name=re.compile("^light")).check()
    line = page.locator(".result code").first
    expect(line).to_contain_text("--preset light")
    page.get_by_label("gradients: every N steps", exact=True).fill("10")
    expect(line).to_contain_text("--capture gradients:every=10")
    expect(page.get_by_label("Evaluate tree_depth", exact=True)).to_be_hidden()
    page.get_by_label("Find a rule by name or description").fill("tree_depth")
    expect(page.get_by_label("Evaluate vanishing_gradient", exact=True)).to_be_hidden()
    page.get_by_label("Evaluate tree_depth", exact=True).check()
    expect(line).to_contain_text("--rule tree_depth")
    page.get_by_label("gradients: every N steps", exact=True).fill("soon")
    expect(page.locator(".result .notice.bad")).to_contain_text("every must be an integer, not 'soon'")
    page.get_by_label("gradients: every N steps", exact=True).fill("5")
    expect(line).to_contain_text("gradients:every=5")
    before = line.text_content()
    page.reload()
    expect(line).to_have_text(before or "")
    page.get_by_role("button", name="Controls", exact=True).click()
    expect(page.locator("#controls")).to_contain_text("This dashboard is read-only")
