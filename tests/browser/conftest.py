"""Fixtures for a real browser and dashboard servers."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launching import environment
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_PATIENCE_MS = 60_000
TOKEN = "of-the-browser-tests"
expect.set_options(timeout=_PATIENCE_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's Chromium; it is closed after each test file, because an event loop runs while it is open.

    The shell without a window of its own takes less than half the processor time of the whole browser.
    """
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert program, "the browser tests need Chromium; on Debian: apt install chromium"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Open what the page of a test and its dashboard share: the cookies."""
    opened = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened.set_default_timeout(_PATIENCE_MS)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """Open a page at 1280 px; its console must have no errors at the end.

    A test that expects an error sets it: ``page.expected_errors = re.compile("403")``.
    """
    errors: list[str] = []
    opened = context.new_page()
    opened.expected_errors = None  # type: ignore[attr-defined]
    opened.on("console", lambda message: errors.append(_format_message(message)) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    expected: re.Pattern[str] | None = opened.expected_errors  # type: ignore[attr-defined]
    opened.close()
    assert [text for text in errors if expected is None or not expected.search(text)] == []


def _format_message(message: ConsoleMessage) -> str:
    return f"{message.text} ({message.location.get('url', '')})"


Serve = Callable[..., str]


@pytest.fixture
def dashboard(context: BrowserContext) -> Iterator[Serve]:
    """Serve a runs directory with ``leadline ui``; returns the address without a trailing slash.

    The page of the test has the cookie for its token.
    """
    processes: list[subprocess.Popen[str]] = []

    def serve(root: Path | str, *options: str) -> str:
        process = subprocess.Popen(
            [sys.executable, "-m", "leadline", "ui", str(root), "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(COLUMNS="200", LEADLINE_TOKEN=TOKEN),
        )
        processes.append(process)
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if found := re.search(r"http://[^\s/]+", line):
                context.request.get(f"{found.group()}/", params={"token": TOKEN})
                return found.group()
        raise AssertionError(f"leadline ui did not start: {said}")

    yield serve
    for each in processes:
        each.send_signal(signal.SIGINT)
    for each in processes:
        each.communicate(timeout=60)
