"""The entries of the rule summary: verdicts, reasons, severity and order."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import pytest

from leadline.judge.rule_entry import RuleEntry
from leadline.judge.rule_results import RuleResultStore
from leadline.records import describe
from leadline.records.finding import Finding
from leadline.records.incarnations import Incarnation, Incarnations
from leadline.records.manifest import RuleSpec
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.store.run_state import read_rule_summary


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
    state = {"verdict": "fired", "why": "", "sampling": "sampled every 200 steps", "judged_steps": 9, "judged_step": 8}
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


CLEAR = {"verdict": "clear", "why": "", "sampling": "", "judged_steps": 9, "error": None, "product": {}}


def begin(run: Path, *names: str) -> RuleResultStore:
    return RuleResultStore(str(run), [RuleSpec(name, name) for name in names], is_written=True)


def judge(store: RuleResultStore, step: int, *names: str) -> None:
    for name in names:
        store.update(name, CLEAR | {"judged_step": step})
    store.judged_step = step
    store.write(at_once=True)


def told(run: Path) -> dict[str, tuple[str, str | None, str]]:
    summary = read_rule_summary(str(run))
    assert summary is not None
    return {rule.name: (rule.status, rule.verdict, rule.why) for rule in summary.rules}


def test_a_judge_that_ends_early_leaves_what_is_clear_so_far(tmp_path: Path) -> None:
    store = begin(tmp_path, "spike", "late")
    judge(store, 1_500, "spike")
    store.end_early(["spike", "late"])
    assert told(tmp_path) == {
        "spike": ("Stopped", "clear", f"clear up to step 1,500; {describe.ENDED_EARLY}"),
        "late": ("Stopped", "undecided", describe.ENDED_EARLY),
    }


def test_a_rule_whose_data_is_missing_is_not_clear_so_far(tmp_path: Path) -> None:
    store = begin(tmp_path, "spike")
    judge(store, 1_500, "spike")
    store.set_missing_data("spike", "dropped 3 rows")
    store.end_early(["spike"])
    assert told(tmp_path) == {"spike": ("Stopped", "undecided", describe.ENDED_EARLY)}


def test_what_a_killed_judge_has_found_stays_until_the_next_one_has_come_as_far(tmp_path: Path) -> None:
    killed = begin(tmp_path, "spike")
    killed.add("spike", {"event": "opened", **asdict(Finding(1, "spike", 700, 700, True, 0, "it is so", "this"))})
    judge(killed, 900, "spike")
    findings = tmp_path / layout.rule_findings("spike")
    restarted = begin(tmp_path, "spike")
    judge(restarted, 899, "spike")
    assert told(tmp_path)["spike"][1] == "fired"
    assert len(findings.read_text().splitlines()) == 1
    judge(restarted, 900, "spike")
    assert told(tmp_path)["spike"][1] == "clear"
    assert findings.read_text() == ""


def test_a_judge_of_a_resumed_run_does_not_wait_for_the_step_of_the_one_before(tmp_path: Path) -> None:
    judge(begin(tmp_path, "spike"), 900, "spike")
    started = Incarnation(1, started_ns=time.time_ns())
    write_document(str(tmp_path / layout.INCARNATIONS), Incarnations((started,)))
    judge(begin(tmp_path, "late"), 3, "late")
    assert list(told(tmp_path)) == ["late"]
