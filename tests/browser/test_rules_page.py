"""Rules page in a browser: live findings and links."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import malicious_inputs
import page_runs
from playwright.sync_api import Page, expect

from leadline.records.manifest import RuleSpec
from leadline.testing.runs import Capture, RunWriter


def test_a_firing_rule_is_shown_live_and_links_to_the_tensor(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    run = tmp_path / "run"
    writer = RunWriter(run, rules=(RuleSpec("mine", "vanishing_gradient"),))
    writer.write_all([Capture(step, {"gradient/a.weight": {"abs_mean": 0.1}}) for step in range(8)])
    malicious_inputs.write_rule(str(run), "mine", rule="vanishing_gradient")
    page.goto(f"{dashboard(tmp_path)}/runs/run/rules")
    row = page.locator("#rules-table tbody tr")
    expect(row).to_contain_text("clear")
    page.evaluate("window.wasNeverReloaded = true")
    finding = page_runs.finding("mine", "it vanishes", ("gradient/a.weight",))
    malicious_inputs.write_rule(str(run), "mine", rule="vanishing_gradient", verdict="fired", findings=[finding])
    expect(row).to_contain_text("it vanishes")
    assert page.evaluate("window.wasNeverReloaded")
    card = page.locator("#mine-1")
    expect(card).to_contain_text("a smaller rate")
    card.get_by_role("link", name="gradient/a.weight", exact=True).click()
    expect(page).to_have_url(re.compile(r"tensors\?name=gradient%2Fa.weight&step=5"))
    expect(page.get_by_role("heading", name="At step 5", exact=True)).to_be_visible()


def test_opened_details_stay_open(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    run = tmp_path / "run"
    RunWriter(run).write_all([Capture(0, {"a": {"l2": 1.0}})])
    malicious_inputs.write_rule(str(run), "overfit")
    page.goto(f"{dashboard(tmp_path)}/runs/run/rules")
    page.locator("#rule-overfit > summary").click()
    expect(page.locator("#rule-overfit")).to_contain_text("Blind spots")
    malicious_inputs.write_rule(str(run), "overtraining")
    expect(page.locator("#rules-table tbody tr")).to_have_count(2)
    expect(page.locator("#rule-overfit").get_by_role("heading", name="Blind spots", exact=True)).to_be_visible()


def test_a_deep_link_opens_the_rule_and_shows_the_finding(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    page_runs.write_full_run(tmp_path / "story")
    address = dashboard(tmp_path)
    page.goto(f"{address}/runs/story/rules#mine-1")
    expect(page.locator("#mine-1")).to_be_in_viewport()
    expect(page.locator("#mine-1")).to_be_focused()
    page.goto(f"{address}/runs/story/rules#rule-mine")
    expect(page.locator("#rule-mine").get_by_role("heading", name="Why it matters", exact=True)).to_be_visible()
    page.goto(f"{address}/runs/story/rules#%E0%A4%A")
    expect(page.locator("#mine-1")).to_be_visible()


def test_malicious_names_run_nothing(tmp_path: Path, dashboard: Callable[..., str], page: Page) -> None:
    page_runs.write_malicious_run(tmp_path / "ill")
    said: list[str] = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss())[-1])
    address = dashboard(tmp_path)
    one = f"tensors?{urlencode({'name': malicious_inputs.LONG})}"
    for part in ("rules", "tensors", one, "profiles", "profiles?view=operators", "profiles?view=difference"):
        page.goto(f"{address}/runs/ill/{part}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{part[:40]} is too wide"
    page.goto(f"{address}/runs/ill/rules")
    expect(page.locator("#bad-1")).to_contain_text(malicious_inputs.MARKUP)
    page.locator("#bad-1").get_by_role("link", name=malicious_inputs.PATH).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(malicious_inputs.PATH)
    expect(page.locator("#over-steps .plot-container")).to_be_visible()
    assert said == []


def test_rules_that_do_not_apply_are_folded_and_found_by_a_link(
    tmp_path: Path, dashboard: Callable[..., str], page: Page
) -> None:
    run = tmp_path / "run"
    writer = RunWriter(run, rules=(RuleSpec("mine", "vanishing_gradient"), RuleSpec("straggler", "straggler")))
    writer.write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(8)]).end()
    malicious_inputs.write_rule(str(run), "mine", rule="vanishing_gradient")
    malicious_inputs.write_rule(str(run), "straggler", verdict="not_applicable", why="one process")
    address = f"{dashboard(tmp_path)}/runs/run/rules"
    page.goto(address)
    expect(page.locator("#show-all")).to_have_text("all 1")
    expect(page.locator("#rules-table tbody tr")).to_have_count(1)
    expect(page.get_by_text("one process", exact=True)).not_to_be_visible()
    page.goto(f"{address}#rule-straggler")
    page.reload()
    expect(page.get_by_text("one process", exact=True).first).to_be_visible()
