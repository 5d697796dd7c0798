"""The summary at the end of a run: its lines, and their number."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import pytest

from leadline.agent.summary import MAX_LINES, JobEnd, summary_lines
from leadline.records.documents import (
    LoggedAction,
    RuleSummary,
    RunStatus,
    SampledItem,
    SavedCheckpoint,
    TimeSummary,
    WorkerDocument,
)
from leadline.records.outcome import run_outcome

WORKER = WorkerDocument(steps={"train": 3750}, own_ns=1_580_000_000, loop_ns=220_000_000_000)


def rule(name: str, **changes: Any) -> dict[str, Any]:
    clear = {"name": name, "status": "NoIssuesFound", "verdict": "clear", "why": "", "findings": 0, "step": None}
    return clear | changes


def fired(name: str, **changes: Any) -> dict[str, Any]:
    finding = {"status": "IssuesFound", "verdict": "fired", "findings": 1, "step": 7, "message": "seen"}
    return rule(name, **(finding | changes))


def undecided(name: str, why: str = "no layers were captured") -> dict[str, Any]:
    return rule(name, verdict="undecided", why=why)


def lines(
    *rules: dict[str, Any], width: int = 120, complete: bool = True, stopped_by: str | None = None, **changes: Any
) -> list[str]:
    facts: dict[str, Any] = {
        "status": "Completed",
        "exit_status": 0,
        "final_status": 0,
        "seconds": 372.0,
        "workers": (WORKER,),
        "run_bytes": 41_000_000,
        "summary": RuleSummary.from_dict({"complete": complete, "rules": list(rules)}),
        "has_rules": True,
        **changes,
    }
    status = RunStatus(facts["status"], stopped_by=stopped_by, exit_status=facts["final_status"])
    outcome = run_outcome(status, facts["summary"] or RuleSummary(), facts["workers"])
    return summary_lines(JobEnd(outcome, **facts), width=width)


def test_a_run_without_findings() -> None:
    assert lines(rule("a"), rule("b")) == [
        "leadline  Completed: 3,750 steps, no problem found (2 rules clear).",
        "leadline  exit 0, 6 m 12 s, 3,750 steps. Overhead: 1.58 s (0.7 % of step time), 41 MB written.",
        "  report: leadline report          dashboard: leadline ui",
    ]


def test_the_plan_of_a_trainer_and_the_checkpoint_before_the_first_problem() -> None:
    saved = (SavedCheckpoint(4, "out/a"), SavedCheckpoint(9, "out/b"))
    workers = (replace(WORKER, planned_steps=10_000, checkpoints=saved),)
    shown = lines(fired("a", severity="fatal"), workers=workers, width=200)
    assert ", 3,750 of 10,000 steps. " in shown[1]
    assert "leadline  checkpoint: out/a, after step 4: the last one before the first problem, at step 7" in shown
    assert not any("checkpoint" in line for line in lines(rule("a"), workers=workers))


def test_an_overloaded_machine_is_noted_once_whatever_was_found() -> None:
    message = "the machine was overloaded; timings are not reliable"
    time = TimeSummary.from_dict({"phases": [{"phase": "forward", "share": 1.0}], "overload": {"message": message}})
    for found in (rule("a"), fired("a"), fired("a", severity="advice"), fired("a", severity="fatal")):
        summary = RuleSummary.from_dict({"complete": True, "rules": [found]})
        shown = lines(summary=replace(summary, time=time))
        assert "\n".join(shown).count(message) == 1, found
        below = shown.index("leadline  time: forward 100 %") + 1
        is_problem = found.get("severity") in (None, "fatal") and found["verdict"] == "fired"
        assert (shown[below] == f"leadline  note: {message}") == is_problem
    quiet = replace(time, overload=None)
    assert "note:" not in "\n".join(lines(summary=replace(summary, time=quiet)))


def test_undecided_rules_are_one_line_of_reasons_and_rules_that_are_not_applicable_are_left_out() -> None:
    rules = (undecided("a"), undecided("other", "no losses"), undecided("c"), rule("d"))
    shown = lines(*rules, rule("straggler", verdict="not_applicable", why="single process"))
    assert shown[0] == "leadline  Completed: 3,750 steps, no problem found (1 rule clear, 3 undecided)."
    assert shown[2] == "leadline  undecided: no layers were captured (2 rules); no losses (other)"
    assert not any("straggler" in line or "single process" in line for line in shown)
    many = lines(rule("d"), *(undecided(f"rule{index}", f"reason {index} " * 5) for index in range(9)))
    (cut,) = [line for line in many if "undecided:" in line]
    assert cut.endswith("; 8 more in leadline show")
    assert len(cut) <= 120


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"status": "Failed", "exit_status": 3, "final_status": 3}, "exit 3, "),
        ({"status": "Failed", "exit_status": -11, "final_status": 139}, "killed by SIGSEGV, "),
        ({"status": "Interrupted", "exit_status": 130, "final_status": 130}, "exit 130, "),
        ({"status": "Stopped", "stopped_by": "rule:nan", "final_status": 10}, "exit 10, "),
        ({"status": "Completed", "exit_status": None}, "exit status unknown, "),
    ],
)
def test_the_facts_follow_the_outcome(changes: dict[str, Any], start: str) -> None:
    (facts,) = [line for line in lines(**changes) if "Overhead: " in line]
    assert facts.startswith(f"leadline  {start}")


def test_the_rule_that_stopped_the_run_is_first_and_never_omitted() -> None:
    rules = [fired(f"rule{index}", step=index, suggestion="try it " * 30) for index in range(40)]
    stopper = fired("nan", step=600, message="loss is NaN", severity="fatal")
    shown = lines(*rules, stopper, status="Stopped", stopped_by="rule:nan", final_status=10)
    assert shown[0].startswith("leadline  Stopped at step 3,749 by nan: loss is NaN (step 600).")
    findings = [line.split()[0] for line in shown if line.startswith("  ") and line[2] != " "]
    assert findings[0] == "nan"
    assert len(shown) <= MAX_LINES


def test_unknown_steps_and_overhead_are_left_out() -> None:
    assert lines(workers=(WorkerDocument(),), run_bytes=0)[1] == (
        "leadline  exit 0, 6 m 12 s. Overhead: 0 bytes written."
    )
    assert ", 3 eval steps, 1 predict step." in lines(workers=(WorkerDocument(steps={"eval": 3, "predict": 1}),))[1]


def test_the_steps_of_several_workers_are_not_added() -> None:
    assert ", 3,750 steps." in lines(workers=(WORKER, WORKER))[1]


def test_findings_come_first_in_aligned_columns_with_their_advice() -> None:
    shown = lines(
        rule("clear_one"),
        undecided("undecided", "no GPU on this node"),
        rule("broken", status="Error", verdict=None, why="ZeroDivisionError: division by zero"),
        fired("exploding_tensor", step=1312, message="loss NaN", suggestion="clip gradients"),
    )
    assert shown[:2] == [
        "leadline  Completed: 3,750 steps; 1 problem found by exploding_tensor: loss NaN (step 1,312).",
        "          Try: clip gradients.",
    ]
    assert shown[3:] == [
        "leadline  1 rule fired, 1 clear, 1 undecided, 1 failed",
        "leadline  undecided: no GPU on this node (undecided)",
        "  exploding_tensor  step 1,312   loss NaN",
        "                                 try: clip gradients",
        "  broken            error        ZeroDivisionError: division by zero",
        "  report: leadline report          dashboard: leadline ui",
    ]


def test_a_finding_without_a_step() -> None:
    assert lines(fired("a", step=None))[3] == "  a  fired   seen"


def test_long_messages_are_wrapped_to_the_width_and_cut() -> None:
    shown = lines(fired("a", message="word " * 200, suggestion="do " * 200), width=60)
    assert all(len(line) <= 60 for line in shown)
    assert len(shown) <= MAX_LINES
    assert any(line.endswith("…") for line in shown)


def test_many_findings_stay_within_the_lines() -> None:
    shown = lines(*(fired(f"rule{index}", suggestion="try it " * 30) for index in range(40)), dropped=("a", "b"))
    assert len(shown) <= MAX_LINES
    assert shown[-2].startswith("  and ")
    assert shown[-2].endswith(" more rules")
    assert shown[-1] == "  report: leadline report          dashboard: leadline ui"


def test_rules_that_were_not_evaluated() -> None:
    assert "the rules were not evaluated" in lines(summary=None)[2]


def test_an_incomplete_evaluation() -> None:
    assert "evaluation incomplete" in lines(rule("a"), complete=False)[0]
    assert lines(rule("a"), complete=False)[2] == "leadline  evaluation incomplete, complete it with: leadline judge"


def test_an_incomplete_evaluation_says_how_far_the_judge_was_behind() -> None:
    summary = RuleSummary.from_dict({"judged_step": 3_000, "rules": [rule("a")]})
    shown = lines(summary=summary, workers=(replace(WORKER, step=3_749),))
    told = "leadline  evaluation incomplete: the judge was 749 steps behind, complete it with: leadline judge"
    assert shown[2] == told


def test_no_rules_at_all() -> None:
    assert len(lines(has_rules=False)) == 3


def test_a_run_without_steps_has_a_reason() -> None:
    assert "no training step was seen" in lines(workers=())[2]
    assert "system metrics only: it cannot" in lines(workers=(), why_not_monitored="it cannot")[2]
    without = lines(undecided("a"), undecided("b", "no losses were captured"), workers=())
    assert without[0] == "leadline  Completed: no step was seen; no verdict (2 rules undecided)."
    assert not any("captured" in line for line in without)


def test_dropped_data_is_reported() -> None:
    assert lines(dropped=("rank0-1: dropped 3 rows since step 7: full",))[2] == (
        "leadline  incomplete data: rank0-1: dropped 3 rows since step 7: full"
    )


@pytest.mark.parametrize(("ratio", "listed"), [(0.09, "time: other 10 %"), (0.9, "time without Leadline: other 100 %")])
def test_the_time_is_that_of_the_training_where_most_of_it_is_overhead(ratio: float, listed: str) -> None:
    phases = [{"phase": "watching", "seconds": 8.6, "share": ratio}, {"phase": "other", "seconds": 1.0, "share": 0.1}]
    summary = RuleSummary.from_dict({"complete": True, "rules": [], "time": {"phases": phases}})
    assert f"leadline  {listed}" in lines(summary=summary)


def timed(kind: str, *rules: dict[str, Any]) -> list[str]:
    phases = [{"phase": "data", "seconds": 6.2, "share": 0.62}, {"phase": "watching", "seconds": 0.2, "share": 0.02}]
    bound = {"kind": kind, "phase": "data", "message": "62 % of the step time is it", "try": "workers"}
    document = {"complete": True, "rules": list(rules), "time": {"phases": phases, "bound": bound}}
    return lines(summary=RuleSummary.from_dict(document))


def test_what_bounds_a_healthy_run_is_told_once() -> None:
    shown = timed("input", rule("a"))
    assert shown[0].endswith("; input-bound: 62 % of the step time is it; no problem found (1 rule clear).")
    assert shown[1] == "          Try: workers."
    assert shown[3] == "leadline  time: data loading 62 %"
    assert timed("compute", rule("a"))[2:4] == [
        "leadline  time: data loading 62 %; bottleneck: compute, 62 % of the step time is it",
        "                try: workers",
    ]


def test_performance_advice_is_left_out_where_something_is_wrong_with_the_model() -> None:
    for kind in ("input", "compute"):
        shown = timed(kind, fired("a"))
        assert "leadline  time: data loading 62 %" in shown
        assert not any("workers" in line for line in shown)


def test_without_a_timed_step_there_is_no_time_breakdown() -> None:
    assert not any("time:" in line for line in lines(rule("a"), summary=RuleSummary(complete=True)))


def action(
    state: str = "done", rule: str = "stall_mail", action: str = "notify:$MAIL", outcome: str = "sent"
) -> LoggedAction:
    return LoggedAction(rule=rule, action=action, state=state, outcome=outcome)


def test_actions_are_counted_and_failures_are_listed() -> None:
    failed = action("failed", outcome="failed after 5 attempts: connection refused")
    actions = (
        action(),
        action(),
        action("skipped"),
        action(action="stop_training"),
        failed,
        failed,
        action("asked", action="tracker"),
    )
    assert lines(rule("a"), actions=actions)[2:5] == [
        "leadline  actions done: notify:$MAIL (2 times), stop_training; actions not confirmed: tracker",
        "leadline  stall_mail: notify:$MAIL failed after 5 attempts: connection refused",
        "  report: leadline report          dashboard: leadline ui",
    ]


def test_actions_that_do_not_fit_are_counted() -> None:
    names = [f"put_event:endpoint=http://127.0.0.1:5000/{number}" for number in range(4)]
    actions = tuple(action(action=name) for name in [*names, "webhook:https://example.org/hook"] for _ in range(9))
    first, second = [line for line in lines(rule("a"), actions=actions) if "put_event" in line or "more" in line]
    assert first.startswith("leadline  actions done: put_event:endpoint=http://127.0.0.1:5000/0 (9 times), ")
    assert second.endswith("; 2 more actions in leadline show")


@pytest.mark.parametrize(
    "shown",
    [
        {"rules": [fired("a", message="seen", suggestion="try " * 200)]},
        {"actions": (action("failed", outcome="failed: " + "why " * 100),)},
    ],
)
def test_what_is_cut_ends_with_a_mark(shown: dict[str, Any]) -> None:
    assert [line for line in lines(*shown.pop("rules", [rule("a")]), **shown) if line.endswith(" …")]


def test_many_failures_leave_room_for_the_findings() -> None:
    actions = tuple(action("failed", outcome=f"failed: {'why ' * 200}{index}") for index in range(40))
    rules = [fired(f"rule_{index}", message="seen " * 100, suggestion="try " * 100) for index in range(40)]
    shown = lines(*rules, actions=actions)
    assert len(shown) <= MAX_LINES
    assert "leadline  and 37 more failed actions" in shown
    assert any(line.startswith("  rule_0 ") for line in shown)
    assert shown[-1] == "  report: leadline report          dashboard: leadline ui"


def test_the_report_that_is_being_rendered_is_named() -> None:
    path = os.path.join(os.getcwd(), "runs", "r", "reports", "report.html")
    assert lines(rule("a"), report=path)[-2:] == [
        "  report: ./runs/r/reports/report.html (in a few seconds)",
        "  dashboard: leadline ui",
    ]


def test_skipped_actions_have_no_line() -> None:
    assert lines(rule("a"), actions=(action("skipped"), action("dry run"))) == lines(rule("a"))


def test_what_was_sampled_less_often_takes_two_lines_and_says_how_much_is_left_out() -> None:
    entry = SampledItem(statistics=("min",), requested_every=50, requests=20, captures=5, steps=1000)
    sampled = tuple(replace(entry, collection=f"layers_{n}", steps=1000 + 10 * n) for n in range(20))
    (first, second) = [line for line in lines(workers=(replace(WORKER, sampled=sampled),)) if "layers" in line]
    assert first.startswith("leadline  sampled less often to stay within the overhead budget: layers_0 every 200 steps")
    assert re.search(r"; \d+ more in leadline show$", second)
