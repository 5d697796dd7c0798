"""Waiting until a page is at rest, as a person does before aiming at something on it."""

from __future__ import annotations

from playwright.sync_api import Page

_AT_REST = """() => new Promise((tell) => {
  const places = () => [...document.querySelectorAll(".chart")];
  const look = () => JSON.stringify(places().map((each) => each.getBoundingClientRect()));
  const before = look();
  setTimeout(() => tell(before === look() && !places().some((each) => each.hasAttribute("aria-busy"))), 300);
})"""


def at_rest(page: Page) -> None:
    """Wait until no chart is asked for or drawn and none moves: what is asked 150 ms after a zoom has come too."""
    page.wait_for_function(_AT_REST)


def opened(page: Page) -> None:
    """Wait until the page that was gone to is whole: its scripts hear clicks."""
    page.wait_for_load_state("load")
