"""The token in a browser: given once, by link or by hand, then neither in the address nor within reach of scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from leadline.testing.runs import Capture, RunWriter

TOKEN = "of-the-browser-tests"


@pytest.fixture
def address(tmp_path: Path, dashboard: Callable[..., str]) -> str:
    RunWriter(tmp_path / "first").write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(9)]).end()
    return dashboard(tmp_path)


def test_a_link_with_the_token_leads_to_its_page(address: str, browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{address}/runs/first/tensors?token={TOKEN}&name=loss")
        expect(page).to_have_url(f"{address}/runs/first/tensors?name=loss")
        expect(page).to_have_title(re.compile("Tensors"))
        assert page.evaluate("document.cookie") == "", "no script reads it"
        page.go_back()
        assert TOKEN not in page.url
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], TOKEN in cookie["value"]) == (True, "Strict", False)


def test_who_has_no_link_types_the_token(address: str, browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        answer = page.goto(f"{address}/runs/first/tensors?name=loss")
        assert answer is not None
        assert answer.status == 401
        page.get_by_label("Token:").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_text("The token is missing or wrong")).to_be_visible()
        page.get_by_label("Token:").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{address}/runs/first/tensors?name=loss")
        expect(page).to_have_title(re.compile("Tensors"))


def test_a_page_is_live_and_controls_the_job_with_the_cookie(address: str, page: Page) -> None:
    with page.expect_response(re.compile("/live$")) as live:
        page.goto(f"{address}/runs/first/overview")
    assert live.value.status == 200
    page.get_by_role("button", name="Controls", exact=True).click()
    expect(page.locator("#controls")).to_contain_text("No requests so far.")


def test_a_page_with_an_old_token_says_that_it_is_no_longer_updated(
    address: str, page: Page, context: BrowserContext
) -> None:
    page.add_init_script('Object.defineProperty(document, "hidden", { get: () => window.isHidden === true })')
    page.expected_errors = re.compile("401")  # type: ignore[attr-defined]
    page.goto(f"{address}/runs/first/overview")
    expect(page.get_by_role("main")).not_to_contain_text("no longer updated")
    cookies = context.cookies()
    context.clear_cookies()
    for is_hidden in ("true", "false"):
        page.evaluate(f"window.isHidden = {is_hidden}; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_role("alert")).to_contain_text("open the link that leadline ui printed last")
    context.add_cookies(cookies)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_role("alert")).to_have_count(0)
