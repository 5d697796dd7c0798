"""A report opened from a file: offline, in light and dark mode, and printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from leadline.reader.run import Run
from leadline.reports.files import write
from leadline.reports.report import build

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "reports"))
from report_runs import MALICIOUS, machine_run

DRAWN = "html[data-drawn]"
PATIENCE_MS = 120_000
DARK_TITLES = """Array.from(document.querySelectorAll('.gtitle')).every(
  each => getComputedStyle(each).fill.match(/\\d+/g).reduce((sum, part) => sum + Number(part), 0) < 250)"""


def wait_until(page: Page, condition: str) -> None:
    """Evaluate from outside, because the page's content security policy forbids ``eval``."""
    until = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < until, condition
        time.sleep(0.05)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    write(build(Run(machine_run(folder / "run"))), str(folder / "report.html"))
    return f"file://{folder}/report.html"


@pytest.fixture(params=["light", "dark"])
def opened(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    """Open the report offline; any console error or request fails the test."""
    context = browser.new_context(color_scheme=request.param, offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda asked: said.append(asked.url) if asked.url != address else None)
    page.goto(address)
    page.wait_for_selector(DRAWN, state="attached", timeout=PATIENCE_MS)
    yield page
    context.close()
    assert said == []


def test_every_chart_is_drawn_and_every_section_is_reached(opened: Page) -> None:
    charts = opened.locator("figure.chart")
    assert charts.count() > 15
    assert opened.locator("figure.chart .main-svg").count() >= charts.count()
    assert opened.locator("html").get_attribute("data-drawn") == str(charts.count())
    assert opened.locator(".modebar-btn").count() > 0
    assert opened.locator(".modebar-btn[data-title*='Share']").count() == 0
    links = opened.locator("nav li a")
    assert links.count() == 18
    for index in range(links.count()):
        target = links.nth(index).get_attribute("href") or ""
        assert opened.locator(f"section{target}").count() == 1
    links.last.click()
    wait_until(opened, "window.scrollY > 2000")


def test_malicious_names_are_text(opened: Page) -> None:
    told = opened.locator("main").inner_text()
    for name in MALICIOUS:
        assert name in told or len(name) > 1000
    assert opened.locator("main img, main script:not([type='application/json'])").count() == 0
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_ink_is_readable_on_paper_and_screen(opened: Page) -> None:
    def lightness(name: str) -> float:
        text = opened.evaluate(f"getComputedStyle(document.body).getPropertyValue('{name}')")
        red, green, blue = (int(part) for part in text[text.index("(") + 1 : -1].split(",")[:3])
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    assert abs(lightness("color") - lightness("background-color")) > 150
    opened.emulate_media(media="print")
    assert lightness("background-color") > 250
    assert lightness("color") < 50
    assert not opened.locator("nav").is_visible()
    wait_until(opened, DARK_TITLES)
