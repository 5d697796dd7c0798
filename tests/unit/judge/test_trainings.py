"""Several trainings of a run, one after another: each is judged for itself, whenever that is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leadline.judge.causes import FiredRule, causes
from leadline.judge.judge import judge_run
from leadline.judge.rule_entry import RuleResult
from leadline.judge.run_trust import RunTrust
from leadline.judge.trainings import Trainings
from leadline.records.event import TRAINING, Event
from leadline.records.finding import Finding
from leadline.records.manifest import RuleSpec
from leadline.records.names import BEST_EVALUATION
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Undecided, VerdictTally
from leadline.testing.runs import START_NS, Capture, Part, RunWriter, TimelineEvent

COUNTED = """
from leadline.rules import Clear, Fired, Needs, Rule, TensorNeed, Undecided

class Counted(Rule):
    spans: bool = False

    def needs(self):
        return Needs((TensorNeed("losses", statistics=("value",), history=None),))

    def remember(self, memory, window):
        return (memory or 0) + 1

    def evaluate(self, window):
        (reading,) = window.readings("value")
        if window.step % 10 == 7:
            return Fired(f"{window.memory} windows, {len(window.earlier(reading))} before", tensors=("loss",))
        return Clear(product={"remarks": [f"{window.memory} losses"]})

class Spanning(Counted):
    spans_trainings = True
"""


AT_FIRST = """
from leadline.rules import Clear, Fired, Needs, Rule, TensorNeed, Undecided

class AtFirst(Rule):
    raises: bool = False

    def needs(self):
        return Needs((TensorNeed("losses", statistics=("value",), end=3),))

    def remember(self, memory, window):
        return [*(memory or ()), window.step]

    def evaluate(self, window):
        return Clear()

    def summarize(self, memory):
        if self.raises:
            raise ValueError("no summary")
        return {"remarks": [f"steps {memory}"]}
"""


def begun(step: int, number: int, worker: str = "rank0-1") -> Part:
    args = {"owner": "SGD", "number": number, "train_step": step}
    return TimelineEvent(Event(TRAINING, step, START_NS + step, args=args), worker)


def parts(begins: tuple[int, ...], steps: int = 30) -> list[Part]:
    found: list[Part] = []
    for step in range(steps):
        if step in begins:
            found.append(begun(step, begins.index(step) + 1))
        found.append(Capture(step, {"loss": {"value": 1.0}}))
    return found


def judged(tmp_path: Path, written: list[Part], rule: str = "Counted", name: str = "run") -> RuleResult:
    (tmp_path / "counted.py").write_text(COUNTED)
    spec = RuleSpec("counted", f"counted.py:{rule}", folder=str(tmp_path))
    writer = RunWriter(tmp_path / name, rules=(spec,)).write_all(written).end()
    (result,) = judge_run(writer.path, trust=RunTrust(is_whole=True)).rules
    return result


def test_memory_and_history_start_over_with_each_training(tmp_path: Path) -> None:
    result = judged(tmp_path, parts((0, 5, 20)))
    assert [(finding.step, finding.training, finding.message) for finding in result.findings] == [
        (7, 2, "3 windows, 2 before (training 2, which began at step 5)"),
        (17, 2, "13 windows, 12 before (training 2, which began at step 5)"),
        (27, 3, "8 windows, 7 before (training 3, which began at step 20)"),
    ]


def test_without_events_a_run_is_one_training(tmp_path: Path) -> None:
    result = judged(tmp_path, parts((0,)))
    assert [finding.message for finding in result.findings][:2] == ["8 windows, 7 before", "18 windows, 17 before"]
    assert result.product == {"remarks": ["30 losses"]}


def at_first(tmp_path: Path, **parameters: bool) -> RuleResult:
    (tmp_path / "at_first.py").write_text(AT_FIRST)
    spec = RuleSpec("at_first", "at_first.py:AtFirst", parameters=parameters, folder=str(tmp_path))
    writer = RunWriter(tmp_path / "run", rules=(spec,)).write_all(parts((0, 20), 40)).end()
    (result,) = judge_run(writer.path, trust=RunTrust(is_whole=True)).rules
    return result


def test_what_is_needed_in_the_first_steps_is_found_again_in_the_next_training(tmp_path: Path) -> None:
    assert at_first(tmp_path).product == {
        "remarks": ["in training 1 of 2: steps [0, 1, 2]", "in training 2 of 2: steps [20, 21, 22, 23]"]
    }


def test_a_summary_that_fails_is_the_error_of_its_rule(tmp_path: Path) -> None:
    result = at_first(tmp_path, raises=True)
    assert (result.verdict, result.why) == (None, "ValueError: no summary (at_first.py:18)")


def test_a_rule_that_follows_the_process_goes_on(tmp_path: Path) -> None:
    result = judged(tmp_path, parts((0, 5, 20)), "Spanning")
    assert [finding.message for finding in result.findings] == [f"{n} windows, {n - 1} before" for n in (8, 18, 28)]


def test_a_training_of_which_the_first_steps_have_no_data_begins_with_the_next_window(tmp_path: Path) -> None:
    written = [part for part in parts((0, 5)) if not (isinstance(part, Capture) and 5 <= part.step < 7)]
    (first, *_) = judged(tmp_path, written).findings
    assert first.message == "1 windows, 0 before (training 2, which began at step 7)"


def test_updates_are_counted_in_each_training_and_later_ones_may_be_short(tmp_path: Path) -> None:
    spec = RuleSpec("closing_remarks", "closing_remarks")
    infos = {"loss": TensorInfo("loss", ("losses",), ())}
    losses = [Capture(step, {"loss": {"value": 2.0 * 0.99 ** (step % 40)}}, infos=infos) for step in range(75)]
    writer = RunWriter(tmp_path / "run", rules=(spec,)).write_all(
        [begun(0, 1), *losses[:40], begun(40, 2), *losses[40:]]
    )
    (result,) = judge_run(writer.end().path, trust=RunTrust(is_whole=True)).rules
    assert result.product["remarks"] == [
        "in training 1 of 2: the loss was still falling after 40 updates, so train for longer to judge the model"
    ]


def test_a_finding_ends_with_its_training(tmp_path: Path) -> None:
    spec = RuleSpec("exploding_tensor", "exploding_tensor")
    losses = [Capture(step, {"loss": {"value": float("nan") if step < 12 else 1.0}}) for step in range(20)]
    writer = RunWriter(tmp_path / "run", rules=(spec,)).write_all(
        [begun(0, 1), *losses[:10], begun(10, 2), *losses[10:]]
    )
    (result,) = judge_run(writer.end().path, trust=RunTrust(is_whole=True)).rules
    assert [(finding.step, finding.last_step, finding.is_open) for finding in result.findings] == [
        (0, 9, False),
        (10, 11, False),
    ]


def test_only_the_worker_that_begins_another_training_loses_its_history(tmp_path: Path) -> None:
    both = [
        part
        for step in range(8)
        for part in (
            *([begun(5, 2, "rank1-2")] if step == 5 else []),
            Capture(step, {"loss": {"value": 1.0}}),
            Capture(step, {"loss": {"value": 1.0}}, "rank1-2"),
        )
    ]
    (tmp_path / "lengths.py").write_text(
        COUNTED.replace('(reading,) = window.readings("value")', "readings = window.readings('value')").replace(
            "{len(window.earlier(reading))} before", "{[len(window.earlier(each)) for each in readings]} before"
        )
    )
    spec = RuleSpec("counted", "lengths.py:Counted", folder=str(tmp_path))
    writer = RunWriter(tmp_path / "run", rules=(spec,)).write_all(both).end()
    (result,) = judge_run(writer.path, trust=RunTrust(is_whole=True)).rules
    assert "[7, 2] before" in result.findings[0].message


def test_findings_of_different_trainings_do_not_explain_each_other() -> None:
    def found(alias: str, step: int, training: int, *explains: str) -> FiredRule:
        finding = Finding(1, alias, step, step, False, 0, "it is so", training=training)
        return FiredRule(alias, alias, (finding,), explains)

    assert causes([found("a", 5, 1, "b"), found("b", 9, 1)]) == {"b": "a"}
    assert causes([found("a", 5, 1, "b"), found("b", 9, 2)]) == {}


def tally(*verdicts: Any) -> VerdictTally:
    made = VerdictTally()
    for verdict in verdicts:
        made.add(verdict)
    return made


def result(*tallies: VerdictTally, least: int = 3) -> tuple[str, str]:
    trainings = Trainings()
    for number, ended in enumerate(tallies[:-1]):
        trainings.begin({"rank0-1"}, number, ended, least, {})
    return trainings.result(tallies[-1], least, "no data")


def test_a_rule_is_clear_that_was_clear_in_a_training() -> None:
    few, enough = tally(Clear()), tally(*[Clear()] * 3)
    assert result(enough, VerdictTally()) == ("clear", "")
    assert result(few, enough) == ("clear", "")
    assert result(few, few, few) == ("undecided", "1 of the 3 captures needed"), "too few in each are not enough"


def test_the_suspicion_with_which_a_training_ends_is_told() -> None:
    suspected = tally(*[Clear()] * 3, Undecided("3 of 5 losses are high", stage="suspected"))
    assert result(suspected, tally(*[Clear()] * 3)) == ("undecided", "training 1: 3 of 5 losses are high")


def test_the_training_that_was_observed_most_says_why_there_is_no_verdict() -> None:
    most = tally(*[Undecided("2 of 9 losses", stage="too few")] * 2)
    assert result(most, VerdictTally()) == ("undecided", "2 of 9 losses")


def test_remarks_on_all_trainings_are_told_once_each() -> None:
    trainings = Trainings()
    for number in range(3):
        remarks = [f"the loss was still falling after {number + 50} updates"]
        trainings.begin({"rank0-1"}, number, VerdictTally(), 1, {"remarks": remarks})
    assert trainings.product({"remarks": ["accuracy is no better"]}) == {
        "remarks": [
            "in 3 of 4 trainings (the numbers are those of training 3): the loss was still falling after 52 updates",
            "in training 4 of 4: accuracy is no better",
        ]
    }


def test_possible_causes_of_all_trainings_are_among_the_remarks() -> None:
    trainings, fact = Trainings(), "gradients were clipped at 3 steps"
    trainings.begin({"rank0-1"}, 9, VerdictTally(), 1, {"remarks": ["too short", fact], "possible_causes": [fact]})
    assert trainings.product({"remarks": ["too short"]}) == {
        "remarks": [
            "in 2 of 2 trainings (the numbers are those of training 2): too short",
            f"in training 1 of 2: {fact}",
        ],
        "possible_causes": [f"in training 1 of 2: {fact}"],
    }


def test_a_remark_on_a_few_trainings_of_a_search_is_not_told() -> None:
    trainings = Trainings()
    for number in range(6):
        trainings.begin({"rank0-1"}, number, VerdictTally(), 1, {"remarks": ["too short"] if number < 3 else []})
    assert trainings.product({}) == {"remarks": []}


def test_the_best_evaluation_is_that_of_the_last_of_several_trainings() -> None:
    trainings, best = Trainings(), "best of 3 evaluations: step 90, validation loss 1 (too few for their noise)"
    assert trainings.product({BEST_EVALUATION: best}) == {BEST_EVALUATION: best}
    trainings.begin({"rank0-1"}, 50, VerdictTally(), 1, {BEST_EVALUATION: "best of 2 evaluations: step 40, accuracy 1"})
    assert trainings.product({BEST_EVALUATION: best}) == {
        BEST_EVALUATION: f"in training 2, which began at step 50, {best}"
    }
    assert trainings.product({}) == {}, "nothing is said of a training without evaluations"
