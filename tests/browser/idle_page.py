"""Helpers that wait until a page is idle."""

from __future__ import annotations

from playwright.sync_api import Page

_IS_IDLE = """() => new Promise((resolve) => {
  const charts = () => [...document.querySelectorAll(".chart")];
  const layout = () => JSON.stringify(charts().map((chart) => chart.getBoundingClientRect()));
  const before = layout();
  setTimeout(() => resolve(before === layout() && !charts().some((chart) => chart.hasAttribute("aria-busy"))), 300);
})"""


def wait_until_idle(page: Page) -> None:
    """Wait until no chart is loading, drawing or moving, including reloads 150 ms after a zoom."""
    page.wait_for_function(_IS_IDLE)


def wait_until_loaded(page: Page) -> None:
    """Wait until the page is loaded and its scripts handle clicks."""
    page.wait_for_load_state("load")
