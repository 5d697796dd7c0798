"""The summary at the end of a run: its lines, and their number."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.agent.summary import MAX_LINES, RunOutcome, summary_lines
from leadline.records.documents import LoggedAction, RuleSummary, WorkerDocument

WORKER = WorkerDocument(steps={"train": 3750}, own_ns=7, loop_ns=1000)


def rule(name: str, **changes: Any) -> dict[str, Any]:
    clear = {"name": name, "status": "NoIssuesFound", "verdict": "clear", "why": "", "findings": 0, "step": None}
    return clear | changes


def fired(name: str, **changes: Any) -> dict[str, Any]:
    finding = {"status": "IssuesFound", "verdict": "fired", "findings": 1, "step": 7, "message": "seen"}
    return rule(name, **(finding | changes))


def ending(*rules: dict[str, Any], complete: bool = True, **changes: Any) -> RunOutcome:
    facts: dict[str, Any] = {
        "status": "Completed",
        "exit_status": 0,
        "final_status": 0,
        "stopped_by": None,
        "seconds": 372.0,
        "workers": (WORKER,),
        "run_bytes": 41_000_000,
        "summary": RuleSummary.from_dict({"complete": complete, "rules": list(rules)}),
        "has_rules": True,
    }
    return RunOutcome(**(facts | changes))


def lines(*rules: dict[str, Any], width: int = 120, **changes: Any) -> list[str]:
    return summary_lines(ending(*rules, **changes), width=width)


def test_a_run_without_findings() -> None:
    assert lines(rule("a"), rule("b")) == [
        "leadline  finished: exit 0, 6 m 12 s, 3,750 steps. Overhead: 0.7 % of step time, 41 MB written.",
        "leadline  0 of 2 rules fired, 2 clear",
        "  report: leadline report          dashboard: leadline ui",
    ]


def test_rules_that_are_undecided_for_the_same_reason_share_a_paragraph() -> None:
    def undecided(name: str, why: str = "boosted trees have no gradients") -> dict[str, Any]:
        return rule(name, verdict="undecided", why=why)

    shown = lines(undecided("a"), fired("found"), undecided("b"), undecided("other", "no GPU was read"), undecided("c"))
    assert shown[1:-1] == [
        "leadline  1 of 5 rules fired, 4 undecided",
        "  found    step 7      seen",
        "  3 rules  undecided   boosted trees have no gradients: a, b, c",
        "  other    undecided   no GPU was read",
    ]
    assert [each.split()[0] for each in lines(undecided("a"), undecided("b"))[2:4]] == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"status": "Failed", "exit_status": 3, "final_status": 3}, "failed: exit 3, "),
        ({"status": "Failed", "exit_status": -11, "final_status": 139}, "failed: killed by SIGSEGV, "),
        ({"status": "Interrupted", "exit_status": 130, "final_status": 130}, "interrupted: exit 130, "),
        ({"status": "Stopped", "stopped_by": "rule:nan", "final_status": 10}, "stopped by nan: exit 10, "),
        ({"status": "Stopped", "stopped_by": "user", "final_status": 10}, "stopped by user: exit 10, "),
        ({"status": "Completed", "exit_status": None}, "finished: exit status unknown, "),
    ],
)
def test_the_headline_says_how_the_run_ended(changes: dict[str, Any], start: str) -> None:
    assert lines(**changes)[0].startswith(f"leadline  {start}")


def test_unknown_steps_and_overhead_are_left_out() -> None:
    assert lines(workers=(WorkerDocument(),), run_bytes=0)[0] == (
        "leadline  finished: exit 0, 6 m 12 s. Overhead: 0 bytes written."
    )
    assert ", 3 eval steps, 1 predict step." in lines(workers=(WorkerDocument(steps={"eval": 3, "predict": 1}),))[0]


def test_the_steps_of_several_workers_are_not_added() -> None:
    assert ", 3,750 steps." in lines(workers=(WORKER, WORKER))[0]


def test_findings_come_first_in_aligned_columns_with_their_advice() -> None:
    shown = lines(
        rule("clear_one"),
        rule("undecided", verdict="undecided", why="no GPU on this node"),
        rule("broken", status="Error", verdict=None, why="ZeroDivisionError: division by zero"),
        fired("exploding_tensor", step=1312, message="loss NaN", suggestion="clip gradients"),
    )
    assert shown[1] == "leadline  1 of 4 rules fired, 1 clear, 1 undecided, 1 failed"
    assert shown[2:] == [
        "  exploding_tensor  step 1,312   loss NaN",
        "                                 try: clip gradients",
        "  broken            error        ZeroDivisionError: division by zero",
        "  undecided         undecided    no GPU on this node",
        "  report: leadline report          dashboard: leadline ui",
    ]


def test_a_finding_without_a_step() -> None:
    assert lines(fired("a", step=None))[2] == "  a  fired   seen"


def test_long_messages_are_wrapped_to_the_width_and_cut() -> None:
    shown = lines(fired("a", message="word " * 200, suggestion="do " * 200), width=60)
    assert all(len(line) <= 60 for line in shown[1:])
    assert len(shown) <= 9
    assert any(line.endswith("…") for line in shown)


def test_many_findings_stay_within_the_lines() -> None:
    shown = lines(*(fired(f"rule{index}", suggestion="try it " * 30) for index in range(40)), dropped=("a", "b"))
    assert len(shown) <= MAX_LINES
    assert shown[-2].startswith("  and ")
    assert shown[-2].endswith(" more rules")
    assert shown[-1] == "  report: leadline report          dashboard: leadline ui"


def test_rules_that_were_not_evaluated() -> None:
    assert "the rules were not evaluated" in lines(summary=None)[1]


def test_an_incomplete_evaluation() -> None:
    assert lines(rule("a"), complete=False)[1].endswith("; evaluation incomplete, complete it with: leadline judge")


def test_no_rules_at_all() -> None:
    assert len(lines(has_rules=False)) == 2


def test_a_run_without_steps_has_a_reason() -> None:
    assert "no training step was seen" in lines(workers=())[1]
    assert "system metrics only: it cannot" in lines(workers=(), unwatched="it cannot")[1]


def test_dropped_data_is_reported() -> None:
    assert lines(dropped=("rank0-1: dropped 3 rows since step 7: full",))[1] == (
        "leadline  incomplete data: rank0-1: dropped 3 rows since step 7: full"
    )


def test_the_time_breakdown_has_the_bottleneck_and_its_advice() -> None:
    phases = [{"phase": "data", "seconds": 6.2, "share": 0.62}, {"phase": "forward", "seconds": 3.8, "share": 0.38}]
    bound = {"kind": "input", "phase": "data", "message": "62 % of the step time is waiting for data", "try": "workers"}
    bounded = {"complete": True, "rules": [rule("a")], "time": {"phases": phases, "bound": bound}}
    shown = lines(rule("a"), summary=RuleSummary.from_dict(bounded))
    assert shown[2:4] == [
        "leadline  time: data 62 %, forward 38 %; bottleneck: input, 62 % of the step time is waiting for data",
        "                try: workers",
    ]
    unbound = {"complete": True, "rules": [], "time": {"phases": phases, "bound": None}}
    assert "leadline  time: data 62 %, forward 38 %" in lines(summary=RuleSummary.from_dict(unbound))


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


def test_many_failures_leave_room_for_the_findings() -> None:
    actions = tuple(action("failed", outcome=f"failed: {'why ' * 200}{index}") for index in range(40))
    rules = [fired(f"rule_{index}", message="seen " * 100, suggestion="try " * 100) for index in range(40)]
    shown = lines(*rules, actions=actions)
    assert len(shown) <= MAX_LINES
    assert "leadline  and 37 more failed actions" in shown
    assert any(line.startswith("  rule_0 ") for line in shown)
    assert shown[-1] == "  report: leadline report          dashboard: leadline ui"


def test_skipped_actions_have_no_line() -> None:
    assert lines(rule("a"), actions=(action("skipped"), action("dry run"))) == lines(rule("a"))
