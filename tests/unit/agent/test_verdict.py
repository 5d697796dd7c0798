"""The verdict: what it says, and that it stays short."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.agent.verdict import MOST_LINES, Ending, verdict_lines

WORKER = {"steps": {"train": 3750}, "own_ns": 7, "loop_ns": 1000}


def rule(name: str, **changes: Any) -> dict[str, Any]:
    clear = {"name": name, "status": "NoIssuesFound", "verdict": "clear", "why": "", "findings": 0, "step": None}
    return clear | changes


def fired(name: str, **changes: Any) -> dict[str, Any]:
    finding = {"status": "IssuesFound", "verdict": "fired", "findings": 1, "step": 7, "message": "seen"}
    return rule(name, **(finding | changes))


def ending(*rules: dict[str, Any], complete: bool = True, **changes: Any) -> Ending:
    facts: dict[str, Any] = {
        "status": "Completed",
        "exit_status": 0,
        "final_status": 0,
        "stopped_by": None,
        "seconds": 372.0,
        "workers": (WORKER,),
        "run_bytes": 41_000_000,
        "summary": {"complete": complete, "rules": list(rules)},
        "has_rules": True,
    }
    return Ending(**(facts | changes))


def lines(*rules: dict[str, Any], width: int = 120, **changes: Any) -> list[str]:
    return verdict_lines(ending(*rules, **changes), width=width)


def test_a_clear_run() -> None:
    assert lines(rule("a"), rule("b")) == [
        "leadline  finished: exit 0, 6 m 12 s, 3,750 steps. Watching cost 0.7 % and 41 MB.",
        "leadline  0 of 2 rules found something, 2 clear",
        "  look: leadline show",
    ]


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"status": "Failed", "exit_status": 3, "final_status": 3}, "failed: exit 3, "),
        ({"status": "Failed", "exit_status": -11, "final_status": 139}, "failed: killed by SIGSEGV, "),
        ({"status": "Interrupted", "exit_status": 130, "final_status": 130}, "interrupted: exit 130, "),
        ({"status": "Stopped", "stopped_by": "rule:nan", "final_status": 10}, "stopped by nan: exit 10, "),
        ({"status": "Stopped", "stopped_by": "user", "final_status": 10}, "stopped by user: exit 10, "),
        ({"status": "Completed", "exit_status": None}, "finished: exit status not known, "),
    ],
)
def test_how_it_ended(changes: dict[str, Any], start: str) -> None:
    assert lines(**changes)[0].startswith(f"leadline  {start}")


def test_steps_and_price_that_are_not_known_are_left_out() -> None:
    assert lines(workers=({"steps": {}},), run_bytes=0)[0] == (
        "leadline  finished: exit 0, 6 m 12 s. Watching cost 0 bytes."
    )
    assert ", 3 eval steps and 1 predict step." in lines(workers=({"steps": {"eval": 3, "predict": 1}},))[0]


def test_steps_of_several_workers_are_not_added_up() -> None:
    assert ", 3,750 steps." in lines(workers=(WORKER, WORKER))[0]


def test_findings_come_first_in_aligned_columns_with_what_to_try() -> None:
    told = lines(
        rule("clear_one"),
        rule("undecided", verdict="undecided", why="no GPU on this node"),
        rule("broken", status="Error", verdict=None, why="ZeroDivisionError: division by zero"),
        fired("exploding_tensor", step=1312, message="loss NaN", suggestion="clip gradients"),
    )
    assert told[1] == "leadline  1 of 4 rules found something, 1 clear, 1 undecided, 1 broken"
    assert told[2:] == [
        "  exploding_tensor  step 1312   loss NaN",
        "                                try: clip gradients",
        "  broken            error       ZeroDivisionError: division by zero",
        "  undecided         undecided   no GPU on this node",
        "  look: leadline show",
    ]


def test_a_finding_without_a_step() -> None:
    assert lines(fired("a", step=None))[2] == "  a  found   seen"


def test_long_messages_are_wrapped_to_the_width_and_cut() -> None:
    told = lines(fired("a", message="word " * 200, suggestion="do " * 200), width=60)
    assert all(len(line) <= 60 for line in told[1:])
    assert len(told) <= 9
    assert any(line.endswith("…") for line in told)


def test_many_findings_stay_within_the_lines() -> None:
    told = lines(*(fired(f"rule{index}", suggestion="try it " * 30) for index in range(40)), lost=("a", "b"))
    assert len(told) <= MOST_LINES
    assert told[-2].startswith("  and ")
    assert told[-2].endswith(" more rules")
    assert told[-1] == "  look: leadline show"


def test_nothing_judged() -> None:
    assert "the rules were not judged" in lines(summary=None)[1]


def test_judging_that_did_not_end() -> None:
    assert lines(rule("a"), complete=False)[1].endswith("; the judging did not come to its end: leadline judge")


def test_no_rules_at_all() -> None:
    assert len(lines(has_rules=False)) == 2


def test_no_step_and_why() -> None:
    assert "no training step was seen" in lines(workers=())[1]
    assert "only the machine was watched: it cannot" in lines(workers=(), unwatched="it cannot")[1]


def test_what_was_lost_is_said() -> None:
    assert lines(lost=("rank0-1: 3 rows lost since step 7: full",))[1] == (
        "leadline  lost: rank0-1: 3 rows lost since step 7: full"
    )
