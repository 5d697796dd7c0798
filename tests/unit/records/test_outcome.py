"""The outcome of a run: its sentences, the order of findings, and the counts of rules."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from leadline.records.documents import (
    DisabledCapture,
    RuleSummary,
    RunStatus,
    SavedCheckpoint,
    SummarizedRule,
    TimeSummary,
    WorkerDocument,
)
from leadline.records.names import OVERHEAD
from leadline.records.outcome import RuleCounts, RunOutcome, ranked, run_outcome

WORKER = WorkerDocument(steps={"train": 603, "eval": 60})
DONE = RunStatus("Completed", exit_status=0)
INPUT = {"kind": "input", "phase": "data", "message": "64 % of the step time is waiting for data", "try": "workers"}


def rule(name: str, verdict: str | None = "clear", status: str = "NoIssuesFound") -> SummarizedRule:
    return SummarizedRule(name=name, rule=name, status=status, verdict=verdict)


def fired(name: str, step: int, message: str = "it is so", **changes: Any) -> SummarizedRule:
    found = replace(rule(name, "fired", "IssuesFound"), findings=1, step=step, message=message, suggestion="this")
    return replace(found, **changes)


CLEAR = (*(rule(f"clear{index}") for index in range(12)), rule("open", "undecided"))
VANISHING = fired("vanishing_gradient", 0, "5 of 10 gradients vanish", is_open=True)
SPIKE = fired("loss_spike", 505, "loss jumped from 2.3 to 1.9e+07", suggestion="a checkpoint before it; usually rates")
NAN = fired("exploding_tensor", 600, "loss is NaN", severity="fatal", explained_by="loss_spike", is_open=True)
SLOW = fired("input_bound", 50, "64 % is waiting", severity="advice", suggestion="more workers; usually decoding")


def text(status: RunStatus, *rules: SummarizedRule, workers: Any = (WORKER,), **changes: Any) -> str:
    return run_outcome(status, RuleSummary(complete=True, rules=rules, **changes), workers).text


def test_a_run_that_a_rule_stopped() -> None:
    stopped = RunStatus("Stopped", stopped_by="rule:exploding_tensor", exit_status=10)
    outcome = run_outcome(stopped, RuleSummary(complete=True, rules=(VANISHING, SPIKE, NAN, *CLEAR)), [WORKER])
    assert outcome.text == (
        "Stopped at step 602 by exploding_tensor: loss is NaN (found at step 600). "
        "First sign at step 505: loss jumped from 2.3 to 1.9e+07. Try: a checkpoint before it."
    )
    assert (outcome.cause, outcome.level) == ("loss_spike", "fatal")
    assert [found.name for found in outcome.findings_ranked] == ["exploding_tensor", "loss_spike", "vanishing_gradient"]
    assert outcome.rules == RuleCounts(fired=3, clear=12, undecided=1, failed=0)


def test_a_cause_that_took_longer_to_be_certain_of_is_no_first_sign() -> None:
    late = fired("diverging_loss", 99, "loss rose from 1.39 to 4.23")
    effect = fired("exploding_gradient", 61, "gradient_norm is 44.7", severity="fatal", explained_by="diverging_loss")
    assert "Cause confirmed at step 99: loss rose from 1.39 to 4.23." in text(DONE, late, effect)


def test_problems_of_a_run_that_went_on_are_counted_by_cause() -> None:
    assert text(DONE, VANISHING, SPIKE, NAN).startswith(
        "Completed: 603 steps; 2 problems found, the worst by exploding_tensor: loss is NaN (found at step 600). First"
    )
    assert text(DONE, SPIKE, SLOW) == (
        "Completed: 603 steps; 1 problem found by loss_spike: loss jumped from 2.3 to 1.9e+07 (step 505). "
        "Try: a checkpoint before it."
    )


def test_a_healthy_run() -> None:
    assert text(DONE, *CLEAR) == "Completed: 603 steps, no problem found (12 rules clear, 1 undecided)."
    assert text(RunStatus("InProgress"), *CLEAR) == (
        "Running: 603 steps, no problem found so far (12 rules clear, 1 undecided)."
    )


def test_performance_is_the_headline_only_where_nothing_is_wrong_with_the_model() -> None:
    time = TimeSummary(bound=INPUT)
    bound = "input-bound: 64 % of the step time is waiting for data"
    assert text(DONE, *CLEAR, time=time) == (
        f"Completed: 603 steps; {bound}; no problem found (12 rules clear, 1 undecided). Try: workers."
    )
    part = "; input-bound: 64 % is waiting (step 50); no problem found (1 rule clear). Try: more workers."
    assert text(DONE, rule("a"), SLOW).endswith(part)
    whole = f"{bound}; no problem found (1 rule clear). Try: workers."
    assert text(DONE, rule("a"), SLOW, time=time).endswith(whole), "the whole run goes before a part of it"
    assert "waiting" not in text(DONE, SPIKE, SLOW, time=time)
    assert "compute" not in text(DONE, rule("a"), time=TimeSummary(bound={**INPUT, "kind": "compute"}))
    own = TimeSummary(bound={**INPUT, "kind": "host", "phase": OVERHEAD})
    assert "bound" not in text(DONE, rule("a"), time=own), "the overhead is told beside the outcome"


def test_a_finding_that_says_the_same_as_the_bottleneck_is_told_once() -> None:
    waits = fired("input_bound", 50, "64 % is waiting", severity="advice")
    outcome = run_outcome(DONE, RuleSummary(complete=True, rules=(waits,), time=TimeSummary(bound=INPUT)), [WORKER])
    assert (outcome.cause, outcome.level) == ("input_bound", "advice")
    assert "piece of advice" not in outcome.text
    assert "1 piece of advice" in text(DONE, SLOW, rule("a"), time=TimeSummary(bound={**INPUT, "kind": "host"}))


def test_long_messages_are_cut_at_the_end_of_a_clause() -> None:
    told = (
        "cross entropy stays at 1.39, no better than guessing; " * 4 + "the gradients vanish at 2.weight (linear) " * 2
    )
    shown = text(DONE, fired("loss_spike", 5, told))
    assert "no better than guessing …" in shown
    words = "x " * 200
    assert "x x …" in text(DONE, fired("loss_spike", 5, words))


def brief(status: RunStatus, *rules: SummarizedRule, workers: Any = (WORKER,), **changes: Any) -> str:
    return run_outcome(status, RuleSummary(complete=True, rules=rules, **changes), list(workers)).brief


OVERFIT = fired("rising_validation_loss", 64, "overfitting since step 11: 1 → 1.5", severity="advice")


def test_advice_on_the_model_comes_first() -> None:
    told = "overfitting since step 11: 1 → 1.5; no other problem found (12 rules clear, 1 undecided). Try: this."
    assert text(DONE, OVERFIT, *CLEAR) == f"Completed: 603 steps; {told}"
    assert text(DONE, SLOW, OVERFIT, *CLEAR, time=TimeSummary(bound=INPUT)) == (
        f"Completed: 603 steps; {told.replace('found (', 'found, 1 more piece of advice (')}"
    )
    assert brief(DONE, OVERFIT, *CLEAR) == told
    outcome = run_outcome(DONE, RuleSummary(complete=True, rules=(SLOW, OVERFIT)), [WORKER])
    assert (outcome.level, outcome.cause) == ("advice", "rising_validation_loss")
    assert text(RunStatus("InProgress"), OVERFIT, *CLEAR).startswith(
        "Running: 603 steps; overfitting since step 11: 1 → 1.5; no other problem found so far ("
    )
    assert text(DONE, SPIKE, OVERFIT).startswith("Completed: 603 steps; 1 problem found by loss_spike")


def test_what_was_not_seen_is_told_of_a_run_that_has_ended() -> None:
    seen = (rule("loss_spike"), rule("no_gradient"), rule("unused_parameter", "undecided"))
    unseen = (rule("rising_validation_loss", "undecided"), rule("no_split", "not_applicable"))
    assert text(DONE, *seen, *unseen) == (
        "Completed: 603 steps, no problem found in losses and gradients (2 rules clear, 2 undecided); "
        "too little was seen of validation."
    )
    assert "too little" not in text(RunStatus("InProgress"), *seen, *unseen)
    assert "; no rule found a problem in losses and gradients (" in text(RunStatus("Stopped"), *seen, *unseen)


def test_beside_status_and_steps_the_outcome_is_brief() -> None:
    assert brief(DONE, NAN, *CLEAR) == "exploding_tensor: loss is NaN (found at step 600). Try: this."
    assert brief(DONE, VANISHING, SPIKE, NAN).startswith(
        "2 problems; exploding_tensor: loss is NaN (found at step 600)."
    )
    assert brief(DONE, *CLEAR) == "no problem found (12 rules clear, 1 undecided)."
    bound = "input-bound: 64 % of the step time is waiting for data"
    waits = brief(DONE, *CLEAR, time=TimeSummary(bound=INPUT))
    assert waits == f"{bound}; no problem found (12 rules clear, 1 undecided). Try: workers."
    worker = WorkerDocument(steps={"train": 601}, error="ValueError: bad batch")
    failed = RunStatus("Failed", exit_status=1)
    assert brief(failed, *CLEAR, workers=[worker]) == "ValueError: bad batch."
    assert brief(failed, NAN, workers=[worker]).startswith("ValueError: bad batch; exploding_tensor: loss is NaN")
    assert brief(failed, *CLEAR).startswith("Failed with exit status 1 at step 603")


def test_an_overloaded_machine_is_told_beside_what_bounds_the_run() -> None:
    overload = {"message": "the machine was overloaded", "try": "fewer processes"}
    bound = "input-bound: 64 % of the step time is waiting for data"
    assert text(DONE, rule("a"), time=TimeSummary(bound=INPUT, overload=overload)) == (
        f"Completed: 603 steps; {bound}; no problem found (1 rule clear). Try: workers. "
        "Note: the machine was overloaded."
    )
    alone = TimeSummary(bound={**INPUT, "kind": "compute"}, overload=overload)
    healthy = run_outcome(DONE, RuleSummary(complete=True, rules=(rule("a"),), time=alone), [WORKER])
    assert healthy.text.endswith(", no problem found (1 rule clear). Note: the machine was overloaded.")
    assert (healthy.level, healthy.advice) == ("clear", "")
    assert "overloaded" not in text(DONE, SPIKE, time=alone)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (RunStatus("Failed", exit_status=1), "Failed with exit status 1 at step 37: ValueError: bad shape; no rule "),
        (RunStatus("Failed", exit_status=139), "Failed with exit status 139 (SIGSEGV) at step 37: "),
        (RunStatus("Failed"), "Failed at step 37: "),
        (
            RunStatus("Interrupted", exit_status=130),
            "Interrupted at step 37; no rule found a problem (12 rules ",
        ),
        (RunStatus("Interrupted"), "Interrupted at step 37: job and agent ended without a final status; no rule "),
        (RunStatus("Stopped", stopped_by="user"), "Stopped at step 36 by hand; no rule found a problem (12 rules "),
        (RunStatus("Stopped", stopped_by="action"), "Stopped at step 36 by an action; "),
        (RunStatus("Stopped", stopped_by="rule:gone"), "Stopped at step 36 by gone; "),
    ],
)
def test_how_a_run_ended(status: RunStatus, expected: str) -> None:
    worker = WorkerDocument(steps={"train": 37}, error="ValueError: bad shape" if status.status == "Failed" else "")
    assert text(status, *CLEAR, workers=[worker]).startswith(expected)


def test_a_rule_that_stopped_the_run_is_a_problem_whatever_its_severity() -> None:
    stopped = RunStatus("Stopped", stopped_by="rule:input_bound", exit_status=10)
    assert text(stopped, SLOW, SPIKE).startswith("Stopped at step 602 by input_bound: 64 % is waiting (step 50). Try: ")


def test_a_crash_of_a_diverged_run_tells_both() -> None:
    worker = WorkerDocument(steps={"train": 601}, error="ValueError: loss is NaN")
    told = text(RunStatus("Failed", exit_status=1), SPIKE, NAN, workers=[worker])
    assert told.startswith(
        "Failed with exit status 1 at step 601: ValueError: loss is NaN; 1 problem found by exploding_tensor: loss"
    )


def test_without_an_exception_the_output_is_where_to_look() -> None:
    assert text(RunStatus("Failed", exit_status=3), *CLEAR).endswith(
        "Try: read the output of the command, in the terminal or log where it ran."
    )


def test_a_run_without_verdicts_is_not_called_healthy() -> None:
    undecided = (rule("a", "undecided"), rule("b", "undecided"))
    assert text(DONE, *undecided) == "Completed: 603 steps; no verdict (2 rules undecided)."
    assert text(DONE, workers=[]) == "Completed: no step was seen; no rules were evaluated."
    assert text(RunStatus("Starting"), workers=[]) == "Starting."
    assert text(RunStatus("Failed", exit_status=2), workers=[]).startswith(
        "Failed with exit status 2 before the first step; no rules were evaluated."
    )
    assert "evaluation incomplete" in run_outcome(DONE, RuleSummary(rules=(rule("a"),)), [WORKER]).text


ENDED = DisabledCapture(96, "ValueError: no such thing (a.py:3)")
ENDED_FIRST = "Capture ended at step 96: ValueError: no such thing (a.py:3), and the training went on unwatched; "


@pytest.mark.parametrize(
    ("status", "rules", "rest"),
    [
        (DONE, [rule("a")], "Completed: 96 steps captured; no rule found a problem until then (1 rule clear)."),
        (DONE, [rule("a", "undecided")], "Completed: 96 steps captured; no verdict (1 rule undecided)."),
        (DONE, [], "Completed: 96 steps captured; no rules were evaluated."),
        (RunStatus("InProgress"), [rule("a")], "Running: 96 steps; no rule found a problem until then (1 rule clear)."),
        (RunStatus("Failed", exit_status=1), [rule("a")], "Failed with exit status 1 at step 96; no rule found"),
    ],
)
def test_a_run_whose_capture_ended_says_so_first(status: RunStatus, rules: list[SummarizedRule], rest: str) -> None:
    worker = WorkerDocument(steps={"train": 96}, off=ENDED)
    summary = RuleSummary(complete=True, rules=tuple(rules), remarks=("the loss was still falling",))
    outcome = run_outcome(status, summary, [worker])
    assert outcome.text.startswith(ENDED_FIRST + rest)
    assert outcome.brief.startswith(ENDED_FIRST.removesuffix("; "))
    assert "no problem found" not in outcome.text
    assert outcome.remarks == ()
    assert outcome.level == ("fatal" if status.status == "Failed" else "warning")
    assert outcome.to_dict()["capture_ended"] == {"step": 96, "error": ENDED.error}
    assert outcome.advice


def test_one_of_several_workers_whose_capture_ended_is_told() -> None:
    workers = [WorkerDocument(steps={"train": 603}), WorkerDocument(steps={"train": 96}, off=ENDED)]
    found = run_outcome(DONE, RuleSummary(complete=True, rules=(rule("a"),)), workers)
    assert found.text.startswith(ENDED_FIRST.replace(", and", " (in 1 of 2 workers), and") + "Completed: ")
    assert run_outcome(DONE, RuleSummary(complete=True, rules=(rule("a"),)), workers[:1]).capture_ended is None


def test_a_judge_that_does_not_keep_up_is_told_while_the_job_runs() -> None:
    worker = WorkerDocument(step=5_999, steps={"train": 6_000}, loop_ns=600 * 10**9)
    for judged_step, told in ((5_960, ""), (4_999, "; the judge is 1,000 steps behind")):
        summary = RuleSummary(judged_step=judged_step, rules=(rule("a"),))
        outcome = run_outcome(RunStatus("InProgress"), summary, [worker])
        assert outcome.text == f"Running: 6,000 steps, no problem found so far (1 rule clear){told}."


def test_steps_of_evaluation_count_only_where_nothing_was_trained() -> None:
    worker = WorkerDocument(steps={"eval": 40})
    assert text(DONE, rule("a"), workers=[worker]).startswith("Completed: 40 eval steps, ")
    assert text(RunStatus("Failed", exit_status=1), workers=[worker]).startswith(
        "Failed with exit status 1 after 40 eval steps"
    )


def test_rules_that_are_not_applicable_are_not_counted() -> None:
    outcome = run_outcome(DONE, RuleSummary(complete=True, rules=(rule("a"), rule("straggler", "not_applicable"))), [])
    assert (outcome.rules.total, outcome.rules.words()) == (1, "1 rule clear")


def test_counts_have_all_states() -> None:
    counts = RuleCounts(fired=2, clear=1200, undecided=1, failed=3)
    assert counts.words(with_fired=True) == "2 rules fired, 1,200 clear, 1 undecided, 3 failed"
    assert counts.words() == "1,200 rules clear, 1 undecided, 3 failed"
    assert RuleCounts().words() == ""
    assert RuleCounts(fired=3, clear=2, advice=1).words(with_fired=True) == "3 rules fired (1 as advice), 2 clear"
    assert RuleCounts(fired=1, clear=2, advice=1).words(with_fired=True) == "1 rule fired as advice, 2 clear"


def test_the_order_depends_on_severity_and_cause_and_not_on_the_order_of_the_rules() -> None:
    early = fired("class_imbalance", 3)
    origin = replace(NAN, name="nonfinite_origin", step=601)
    expected = ["exploding_tensor", "nonfinite_origin", "loss_spike", "class_imbalance", "input_bound"]
    for rules in permutations((SLOW, early, SPIKE, NAN, origin)):
        assert [found.name for found in ranked(rules)] == expected
    assert ranked((SLOW, SPIKE, NAN, early), "class_imbalance")[0] == early
    assert ranked((origin, NAN, SPIKE), "nonfinite_origin")[0] == origin


def test_of_equally_severe_findings_the_cause_comes_first() -> None:
    cause, effect = fired("b", 7), fired("a", 7, explained_by="b")
    assert [found.name for found in ranked((effect, cause))] == ["b", "a"]
    assert text(DONE, effect, cause).startswith("Completed: 603 steps; 1 problem found by b: it is so (step 7).")


def test_a_step_that_the_message_names_is_not_repeated() -> None:
    assert "(step" not in text(DONE, fired("nonfinite_origin", 1600, "from the backward pass, at step 1600"))
    assert text(DONE, fired("memory_growth", -1, "memory grows")).endswith("memory_growth: memory grows. Try: this.")
    low = fired("learning_rate", 100, "below 1e-6 (nearest 1.58e-7)", is_open=True)
    assert text(DONE, low).endswith("by learning_rate: below 1e-6 (nearest 1.58e-7), found at step 100. Try: this.")
    assert text(DONE, replace(low, is_open=False, last_step=1390)).endswith("1.58e-7), steps 100 to 1,390. Try: this.")
    assert text(DONE, fired("a", 100, last_step=100)).endswith("by a: it is so (step 100). Try: this.")
    ended = fired("no_gradient", 70, "every gradient is exactly 0 from step 20 to 80", last_step=80)
    assert text(DONE, ended).endswith("by no_gradient: every gradient is exactly 0 from step 20 to 80. Try: this.")
    dead = fired("no_gradient", 70, "every gradient is exactly 0 since step 20", is_open=True)
    assert text(DONE, dead).endswith("by no_gradient: every gradient is exactly 0 since step 20. Try: this.")


def test_the_outcome_as_json_has_the_ranked_findings() -> None:
    found = run_outcome(DONE, RuleSummary(complete=True, rules=(SPIKE, NAN)), [WORKER]).to_dict()
    assert found["text"].startswith("Completed")
    assert (found["cause"], found["level"]) == ("loss_spike", "fatal")
    assert found["rules"] == {"fired": 2, "clear": 0, "undecided": 0, "failed": 0, "advice": 0}
    (problem,) = found["findings_ranked"]
    assert (problem["name"], problem["severity"]) == ("loss_spike", "warning")
    assert [(effect["name"], effect["severity"]) for effect in problem["explains"]] == [("exploding_tensor", "fatal")]


def test_a_cause_comes_with_everything_that_follows_from_it() -> None:
    effects = tuple(fired(f"effect{step}", step, explained_by="loss_spike") for step in (600, 510))
    outcome = run_outcome(DONE, RuleSummary(complete=True, rules=(VANISHING, *effects, SPIKE)), [WORKER])
    assert [problem.cause.name for problem in outcome.problems] == ["vanishing_gradient", "loss_spike"]
    assert outcome.problems[1].explains == "explains effect510 (step 510), effect600 (step 600)"
    assert outcome.problems[0].explains == ""


def test_a_finding_whose_cause_is_unknown_stands_alone() -> None:
    outcome = run_outcome(DONE, RuleSummary(complete=True, rules=(NAN,)), [WORKER])
    assert [problem.cause.name for problem in outcome.problems] == ["exploding_tensor"]


def test_a_finding_that_began_earlier_says_when() -> None:
    began = replace(fired("no_gradient", 70, "gradients are missing", is_open=True), since_step=20)
    assert text(DONE, began).endswith(
        "by no_gradient: gradients are missing (since step 20, found at step 70). Try: this."
    )
    assert text(DONE, replace(began, since_step=70)).endswith("gradients are missing (found at step 70). Try: this.")
    outcome = run_outcome(DONE, RuleSummary(complete=True, rules=(began,)), [WORKER]).to_dict()
    assert (outcome["findings_ranked"][0]["step"], outcome["findings_ranked"][0]["since_step"]) == (70, 20)


def test_advice_that_follows_from_other_advice_is_not_counted() -> None:
    effect = fired("overfit", 80, "above", severity="advice", explained_by="rising_validation_loss")
    assert "more piece" not in text(DONE, OVERFIT, effect, *CLEAR)


def test_a_checkpoint_has_the_name_that_the_trainer_gave_it() -> None:
    advised = replace(OVERFIT, suggestion="the checkpoint of step 1,079, early stopping; usually the model is large")
    saved = tuple(SavedCheckpoint(step, f"out/checkpoint-{step + 1}/") for step in (79, 1079))
    summary = RuleSummary(complete=True, rules=(advised,))
    outcome = run_outcome(DONE, summary, [replace(WORKER, checkpoints=saved)])
    assert outcome.advice == "the checkpoint of step 1,079 (checkpoint-1080), early stopping"
    other = run_outcome(DONE, summary, [replace(WORKER, checkpoints=saved[:1])])
    assert other.advice == "the checkpoint of step 1,079, early stopping"


def test_the_word_of_json_has_no_sign() -> None:
    outcome = run_outcome(DONE, RuleSummary(rules=(NAN,)), [WORKER])
    assert (outcome.word, outcome.to_dict()["word"]) == ("▲ problem", "problem")
    assert run_outcome(DONE, RuleSummary(), [WORKER]).to_dict()["word"] == "no verdict"


def test_remarks_follow_the_line_of_a_run_without_problems() -> None:
    remark = "the loss was still falling after 60 updates"
    assert text(DONE, *CLEAR, remarks=(remark,)).endswith(
        "(12 rules clear, 1 undecided). Remark: the loss was still falling after 60 updates."
    )
    assert "Remark" not in text(DONE, SPIKE, remarks=(remark,))
    assert "Remark" not in text(RunStatus("InProgress"), *CLEAR, remarks=(remark,))
    outcome = run_outcome(DONE, RuleSummary(complete=True, rules=(SPIKE,), remarks=(remark,)), [WORKER])
    assert outcome.to_dict()["remarks"] == []
    listed = run_outcome(DONE, RuleSummary(complete=True, rules=CLEAR, remarks=(remark,)), [WORKER])
    assert listed.brief.endswith(" Remark: the loss was still falling after 60 updates.")


def test_a_fact_about_the_program_follows_a_problem_of_the_model_as_its_possible_cause() -> None:
    fact, other = "gradients were clipped while they were scaled", "the loss was still falling after 60 updates"
    known: dict[str, Any] = {"remarks": (other, fact), "possible_causes": (fact,)}
    assert text(DONE, SPIKE, **known).endswith(f"Possible cause: {fact}.")
    assert other not in text(DONE, SPIKE, **known)
    assert text(DONE, *CLEAR, **known).endswith(f"Remark: {other}. Remark: {fact}.")
    stalled = fired("stalled_training", 50)
    assert fact not in text(DONE, stalled, **known)  # a problem of the machine has other causes
    assert fact not in text(RunStatus("Failed", exit_status=1), *CLEAR, **known)
    outcome = run_outcome(DONE, RuleSummary(complete=True, rules=(SPIKE,), **known), [WORKER]).to_dict()
    assert outcome["possible_causes"] == [fact]


def test_a_training_that_is_no_better_than_guessing_says_so_first() -> None:
    chance = "loss stayed at 0.731 in the last 60 of 120 updates, no better than always guessing (0.68)"
    remarks = ("the loss was still falling after 60 updates", chance)

    def outcome(status: RunStatus, *rules: SummarizedRule, time: TimeSummary | None = None) -> RunOutcome:
        return run_outcome(status, RuleSummary(complete=True, rules=rules, remarks=remarks, time=time), [WORKER])

    ended = outcome(DONE, *CLEAR)
    assert (ended.level, ended.word) == ("advice", "● advice")
    assert ended.verdict.startswith(f"{chance}; no other problem found")
    assert ended.text.count(chance) == 1
    assert ended.text.endswith("Remark: the loss was still falling after 60 updates.")
    assert ended.advice.startswith("leadline check")
    assert ended.to_dict()["remarks"] == list(remarks)
    slow = TimeSummary(bound={"kind": "input", "message": "waiting for data"})
    assert "waiting" not in outcome(DONE, *CLEAR, time=slow).headline
    tested = outcome(DONE, *CLEAR, rule("unlearnable_batch"))
    assert (tested.level, tested.advice) == ("advice", "")
    trees = run_outcome(DONE, RuleSummary(rules=CLEAR, remarks=remarks), [WorkerDocument(framework="xgboost 3.2")])
    assert (trees.level, trees.advice) == ("advice", "")
    assert chance not in outcome(DONE, SPIKE).text
    assert chance not in outcome(RunStatus("InProgress"), *CLEAR).text
    assert outcome(RunStatus("Failed"), *CLEAR).level == "fatal"


@pytest.mark.parametrize(
    ("status", "rules", "word"),
    [
        (RunStatus("Completed"), (rule("loss_spike"),), "✓ ok"),
        (RunStatus("Completed"), (fired("loss_spike", 9),), "▲ problem"),
        (RunStatus("InProgress"), (fired("loss_spike", 9),), "▲ problem"),
        (RunStatus("Completed"), (), "– no verdict"),
        (RunStatus("Stopped", stopped_by="rule:loss_spike"), (fired("loss_spike", 9),), "■ stopped"),
        (RunStatus("Failed", exit_status=1), (rule("loss_spike"),), "✗ failed"),
    ],
)
def test_a_verdict_begins_with_a_word(status: RunStatus, rules: tuple[SummarizedRule, ...], word: str) -> None:
    assert run_outcome(status, RuleSummary(rules=rules), [WORKER]).word == word


def test_the_best_evaluation_is_said_of_every_run_that_has_ended() -> None:
    best = "best of 12 evaluations: step 300, val_loss 0.42 (noise 0.01)"
    for rules in (CLEAR, (SPIKE,)):
        summary = RuleSummary(complete=True, rules=rules, best_evaluation=best)
        outcome = run_outcome(DONE, summary, [WORKER])
        assert outcome.sentences[-1] == "Best of 12 evaluations: step 300, val_loss 0.42 (noise 0.01)."
        assert outcome.to_dict()["best_evaluation"] == best
        assert "evaluations" not in run_outcome(RunStatus("InProgress"), summary, [WORKER]).text
    assert run_outcome(DONE, RuleSummary(complete=True, rules=CLEAR), [WORKER]).to_dict()["best_evaluation"] is None


def test_what_has_passed_leads_no_headline() -> None:
    """A loss that stayed at the level of guessing for a while, and fell then."""
    passed = fired("metric_not_improving", 299, "loss stays at 0.69", severity="advice", last_step=314, has_passed=True)
    outcome = run_outcome(DONE, RuleSummary(complete=True, rules=(passed, *CLEAR)), [WORKER])
    assert outcome.headline.startswith("Completed: 603 steps, no problem found")
    assert ", 1 piece of advice (12 rules clear, 1 undecided)" in outcome.headline
    assert outcome.advice == ""
    stuck = replace(passed, has_passed=False, severity="warning")
    assert "1 problem found by metric_not_improving" in text(DONE, stuck, *CLEAR)
