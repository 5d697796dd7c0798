"""Model page in a browser: charts of boosted trees and live updates."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from idle_page import wait_until_loaded
from playwright.sync_api import Page, expect
from tree_scenarios import answers, importances, loss

from leadline.testing.runs import Part, RunWriter

LABELS = np.repeat([0, 1, 1], 20)
PATIENCE_MS = 60_000
FEATURE = "<img src=x onerror=alert(1)>"


def rounds(steps: range) -> list[Part]:
    parts: list[Part] = []
    for step in steps:
        parts.append(loss(step, train=1 / (step + 1), holdout=1.1 / (step + 1)))
        if step % 5 == 0:
            wrong = max(0, 20 - step)
            scores = np.where(LABELS, 0.8, 0.1)
            scores[:wrong] = 0.9
            parts += [importances(step, {"age": 0.25, FEATURE: 0.75}, kind) for kind in ("gain", "total_cover")]
            parts += answers(step, LABELS, scores)
    return parts


def training(root: Path) -> RunWriter:
    writer = RunWriter(root / "trees").write_all(rounds(range(6)))
    settings = {"objective": "binary:logistic", "max_depth": 3}
    writer.write_worker("rank0-1", framework="xgboost 3.2.0", hyperparameters=settings, evaluated_on="holdout")
    return writer


def test_the_sections_are_drawn_and_grow_with_the_training(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    writer = training(tmp_path)
    page.goto(f"{dashboard(tmp_path)}/runs/trees/overview")
    page.get_by_role("link", name="Model", exact=True).click()
    expect(page).to_have_title(re.compile("Model"))
    wait_until_loaded(page)
    page.evaluate("window.wasNeverReloaded = true")
    matrix = page.locator("#confusion-matrix")
    expect(matrix).to_contain_text("75 % of 60 samples are predicted correctly")
    matrix.scroll_into_view_if_needed()
    expect(matrix.locator(".heatmaplayer").first).to_be_visible()
    missing = page.get_by_role("region", name="Not available for this run", exact=True)
    expect(missing).to_contain_text("A classification has no residuals")
    expect(missing).to_contain_text("Distribution of residuals at the last step")
    importance = page.locator("#feature-importance")
    importance.scroll_into_view_if_needed()
    expect(importance.locator(".ytick text").first).to_contain_text("<img src=x")
    assert importance.locator("img").count() == 0
    writer.write_all(rounds(range(6, 21)))
    expect(matrix).to_contain_text("100 % of 60 samples are predicted correctly", timeout=PATIENCE_MS)
    expect(page.locator("#evaluation")).to_contain_text("weighted")
    matrix.scroll_into_view_if_needed()
    expect(matrix).to_contain_text("Round 20", timeout=PATIENCE_MS)
    headings = page.locator("h1, h2, h3, h4")
    assert headings.evaluate_all("all => all.filter(heading => !heading.textContent.trim()).length") == 0
    assert page.evaluate("window.wasNeverReloaded")


def test_one_importance_is_drawn_and_the_chosen_one_stays(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    writer = training(tmp_path)
    page.goto(f"{dashboard(tmp_path)}/runs/trees/model")
    section = page.locator("#feature-importance")
    section.scroll_into_view_if_needed()
    expect(section.locator(".chart")).to_have_count(1)
    expect(section.locator(".chart-head")).to_have_text("Importance by gain")
    choice = section.locator("select")
    choice.select_option("total cover")
    expect(section.locator(".chart-head")).to_have_text("Importance by total cover")
    writer.write_all(rounds(range(6, 21)))
    expect(page.locator("#confusion-matrix")).to_contain_text("100 % of 60 samples", timeout=PATIENCE_MS)
    expect(choice.locator("option:checked")).to_have_text("total cover")
    expect(section.locator(".chart-head")).to_have_text("Importance by total cover")
