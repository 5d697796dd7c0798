"""What a rule has seen: how often its data was captured, what is missing, and how many observations make it clear."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rule_scenarios import captured

from leadline.judge.evaluator import Evaluator
from leadline.records.event import Event
from leadline.records.needs import Needs, TensorNeed
from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.records.verdict import Clear, NotApplicable, Undecided, Verdict, VerdictTally
from leadline.rules.rule import Rule
from leadline.testing.runs import START_NS, Capture, Part, RunWriter, TimelineEvent

WEIGHTS = TensorNeed("weights", statistics=("l2",))
GRADIENTS = TensorNeed("gradients", statistics=("l2",))
FRONT = (0, 1, 2, 3, 4, 5, 10, 20, 50, 100)


def always(*wanted: TensorNeed, least: int = 1) -> Rule:
    """Return a rule that is clear on every window."""

    class Always(Rule, frozen=True):
        def needs(self) -> Needs:
            return Needs(wanted or (WEIGHTS,))

        @property
        def least_observations(self) -> int:
            return least

        def evaluate(self, window: Any) -> Verdict:
            return Clear()

    return Always()


def state(
    folder: Path,
    parts: Sequence[Part],
    rule: Rule,
    *,
    every: int = 50,
    steps: tuple[int, ...] = FRONT,
    name: str = "it",
) -> dict[str, Any]:
    """Return the state of a rule whose weights and gradients were planned at an interval."""
    schedule = Schedule(every=every, steps=steps)
    items = tuple(
        CaptureItem(collection, statistics=("l2",), schedule=schedule, source=f"rule:{name}")
        for collection in ("weights", "gradients")
    )
    path = RunWriter(folder / "run", plan=CapturePlan(items)).write_all(parts).end().path
    return Evaluator(path, [("it", rule)], started_ns=START_NS).advance(is_over=True).rules["it"]


def weights(steps: Sequence[int], *, last: int = 0, **more: float) -> list[Capture]:
    values = {"a.weight": {"l2": 1.0}, **{f"gradient/{name}.weight": {"l2": value} for name, value in more.items()}}
    heartbeat = [captured(last, {"loss": {"value": 1.0}})] if last and last not in steps else []
    return [*(captured(step, values) for step in steps), *heartbeat]


@pytest.mark.parametrize(
    ("steps", "last", "sampling"),
    [
        ([*FRONT, *range(150, 1001, 50)], 1000, ""),
        ([*FRONT, *range(150, 1001, 60)], 1000, ""),
        ([*FRONT, *range(200, 1001, 200)], 1000, "sampled every 180 steps"),
        ([0, 100, 900], 2000, "sampled every 1,900 steps"),
        (FRONT, 1000, "sampled every 900 steps"),
        ([0, 7, 30], 100, ""),
    ],
    ids=["as planned", "a little late", "every 200", "rarely", "only the first steps", "short"],
)
def test_the_real_interval_is_told_if_it_is_longer_than_planned(
    tmp_path: Path, steps: Sequence[int], last: int, sampling: str
) -> None:
    found = state(tmp_path, weights(steps, last=last), always())
    assert (found["verdict"], found["sampling"]) == ("clear", sampling)


def test_the_rarest_collection_counts(tmp_path: Path) -> None:
    parts = [captured(0, {"gradient/a.weight": {"l2": 1.0}}), *weights(range(0, 1000, 50), last=999)]
    found = state(tmp_path, parts, always(WEIGHTS, GRADIENTS), steps=())
    assert (found["verdict"], found["sampling"]) == ("clear", "sampled every 1,000 steps")


def test_what_is_needed_at_the_start_only_is_not_sampled(tmp_path: Path) -> None:
    parts = weights(FRONT, last=1000)
    start = TensorNeed("weights", statistics=("l2",), end=3)
    assert state(tmp_path, parts, always(start))["sampling"] == ""
    found = state(tmp_path / "other", parts, always(start, WEIGHTS))
    assert found["sampling"] == "sampled every 900 steps"


def test_a_rule_that_was_not_planned_is_compared_with_the_preset(tmp_path: Path) -> None:
    parts = weights(range(0, 1000, 200), last=999)
    assert state(tmp_path, parts, always(), steps=(), name="another")["sampling"] == ""


def test_old_events_of_less_frequent_captures_change_nothing(tmp_path: Path) -> None:
    args = {"collection": "weights", "statistics": ["l2"], "sources": ["rule:it"], "from_every": 50, "to_every": 200}
    event = TimelineEvent(Event("capture_thinned", 0, START_NS, args=args))
    found = state(tmp_path, [event, *weights(range(0, 1000, 200), last=999)], always(), steps=())
    assert (found["verdict"], found["why"], found["sampling"]) == ("clear", "", "sampled every 200 steps")


def test_a_rule_is_undecided_until_each_required_collection_was_captured(tmp_path: Path) -> None:
    both, optional = (WEIGHTS, GRADIENTS), TensorNeed("gradients", statistics=("l2",), is_optional=True)
    found = state(tmp_path, weights(range(5)), always(*both))
    assert (found["verdict"], found["why"]) == ("undecided", "no gradients were captured")
    assert state(tmp_path / "other", weights(range(5), a=1.0), always(*both))["verdict"] == "clear"
    assert state(tmp_path / "third", weights(range(5)), always(WEIGHTS, optional))["verdict"] == "clear"


def test_of_many_collections_the_first_is_named(tmp_path: Path) -> None:
    names = ("inputs", "linear_input", "conv2d_input")
    needs = [TensorNeed(name, statistics=("l2",), is_optional=True) for name in names]
    found = state(tmp_path, weights(range(5)), always(*needs))
    assert found["why"] == "no inputs, nor any of the 2 other collections that it can use, were captured"


def test_a_statistic_that_was_not_captured_does_not_count(tmp_path: Path) -> None:
    parts = [captured(0, {"a.weight": {"l2": 1.0}, "gradient/a.weight": {"mean": 1.0}})]
    why = "gradients were captured, but without l2"
    assert state(tmp_path, parts, always(WEIGHTS, GRADIENTS))["why"] == why
    percentiles = TensorNeed("gradients", statistics=("p5", "p95"))
    found = state(tmp_path / "alone", parts, always(percentiles))
    assert (found["verdict"], found["why"]) == ("undecided", "gradients were captured, but without p5 and p95")


def test_other_tensors_of_a_collection_do_not_count(tmp_path: Path) -> None:
    parts = [captured(0, {"a.weight": {"l2": 1.0}})]
    found = state(tmp_path, parts, always(TensorNeed("weights", regex="^b", statistics=("l2",))))
    assert (found["verdict"], found["why"]) == ("undecided", "none of the weights that are needed was captured")


def test_it_takes_enough_observations_however_far_apart(tmp_path: Path) -> None:
    few = state(tmp_path, weights([0, 3]), always(least=5))
    assert (few["verdict"], few["why"]) == ("undecided", "2 of the 5 captures needed")
    assert state(tmp_path / "other", weights([0, 1, 400, 5000, 5001]), always(least=5))["verdict"] == "clear"


@pytest.mark.parametrize(
    ("verdicts", "result"),
    [
        ([], ("undecided", "unseen")),
        ([Clear()], ("undecided", "1 of the 2 captures needed")),
        ([Clear(), Clear()], ("clear", "")),
        ([Clear(), Undecided("no data")], ("undecided", "1 of the 2 captures needed")),
        ([Undecided("few", stage="too few"), Clear()], ("clear", "")),
        ([Undecided("few", stage="too few"), Undecided("nothing")], ("undecided", "few")),
        ([Undecided("nothing")], ("undecided", "nothing")),
        ([Clear(), Clear(), Undecided("rising", stage="suspected")], ("undecided", "rising")),
        ([Clear(), Undecided("rising", stage="suspected"), Undecided("nothing")], ("undecided", "rising")),
        ([Undecided("rising", stage="suspected"), Clear()], ("clear", "")),
        ([NotApplicable("alone")], ("not_applicable", "alone")),
        ([NotApplicable("alone"), Undecided("nothing")], ("not_applicable", "alone")),
        ([NotApplicable("alone"), Undecided("few", stage="too few")], ("undecided", "few")),
        ([NotApplicable("alone"), Clear(), Clear()], ("clear", "")),
    ],
)
def test_verdicts_on_windows_add_up(verdicts: Sequence[Verdict], result: tuple[str, str]) -> None:
    tally = VerdictTally()
    for verdict in verdicts:
        tally.add(verdict)
    assert tally.result(2, "unseen") == result
