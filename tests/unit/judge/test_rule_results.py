"""The entries of the rule summary: verdicts, reasons, severity and order."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from leadline.judge.rule_entry import RuleEntry
from leadline.judge.rule_results import RuleResultStore
from leadline.records.finding import Finding
from leadline.records.manifest import RuleSpec


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_rule_that_is_not_applicable_is_decided_at_once(is_complete: bool) -> None:
    entry = RuleEntry(RuleSpec("straggler", "straggler"), {}, verdict="not_applicable", why="single process")
    entry.missing_data = "dropped 3 rows"
    assert (entry.current_verdict(is_complete=is_complete), entry.reason) == ("not_applicable", "single process")


def test_the_summary_has_severity_and_order(tmp_path: Path) -> None:
    store = RuleResultStore(
        str(tmp_path), [RuleSpec(name, name) for name in ("spike", "slow", "nan")], is_written=False
    )
    for name, severity, explains in (("spike", "warning", ("nan",)), ("slow", "advice", ()), ("nan", "fatal", ())):
        store.describe(name, {}, explains, severity)  # type: ignore[arg-type]
    state = {"verdict": "fired", "why": "", "sampling": "sampled every 200 steps", "judged_steps": 9}
    store.update("spike", {**state, "error": None, "product": {}})
    for step, name in enumerate(("slow", "spike", "nan")):
        store.add(name, asdict(Finding(1, name, step, step, name == "nan", 0, "it is so", "this")))
    nan, spike, slow = store.summary().rules
    assert [(rule.name, rule.severity, rule.is_open) for rule in (nan, spike, slow)] == [
        ("nan", "fatal", True),
        ("spike", "warning", False),
        ("slow", "advice", False),
    ]
    assert (nan.explained_by, spike.sampling) == ("spike", "sampled every 200 steps")
