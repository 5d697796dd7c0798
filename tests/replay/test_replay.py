"""Live == afterwards == after a restart == with other segments, for every rule."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from unittest import mock

import pytest
from generated_runs import scenarios
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.judge.evaluator import Evaluator
from leadline.rules.registry import BUILT_IN, find_rule
from leadline.rules.rule import Rule
from leadline.store.documents import encode
from leadline.testing.runs import START_NS, Capture, Part, RunWriter, SystemSample

GIVEN = {
    "all_zero": {"collection_names": ("gradients", "losses")},
    "confusion": {"start_step": 0},
    "similar_across_runs": {"other_trials": ("once",), "fires_on": "similar"},
    "tensor_variance": {"tensor_regex": (".",), "max_threshold": 1.0},
    "unchanged_tensor": {"collection_names": ("gradients", "losses")},
}
"""Parameters of rules that need some."""
RULES: dict[str, Callable[[], Rule]] = {
    **{name: partial(find_rule(name), **GIVEN.get(name, {})) for name in BUILT_IN},
    "few_clipped": lambda: find_rule("gradient_clipping")(window=3),
    "few_labels": lambda: find_rule("class_imbalance")(samples=20),
    "few_images": lambda: find_rule("check_input_images")(threshold_samples=6),
    "patient": lambda: find_rule("overfit")(patience=2, start_step=2),
    "differs": lambda: find_rule("similar_across_runs")(other_trials=("once",)),
    "weights_compared": lambda: find_rule("weight_update_ratio")(num_steps=2),
    "short_stall": lambda: find_rule("stalled_training")(threshold=1.5),
    "near_losses": lambda: find_rule("loss_not_decreasing")(num_steps=2),
    "all_losses": lambda: find_rule("loss_not_decreasing")(num_steps=3, mode="global"),
    "only_nan": lambda: find_rule("exploding_tensor")(only_nan=True, tensor_regex=("a.weight", "loss")),
}


class RecordedJudge:
    """The results of a judge; the data of a finished run are read once."""

    def __init__(self, path: str, *, is_over: bool = False) -> None:
        self._path, self._is_over = path, is_over
        self.restart()

    def restart(self) -> None:
        self.events: dict[str, list[bytes]] = {name: [] for name in RULES}
        self.states: dict[str, dict] = {}
        rules = [(name, make()) for name, make in RULES.items()]
        self._judging = Evaluator(self._path, rules, started_ns=START_NS, is_over=self._is_over)

    def advance(self, *, is_over: bool = False, max_seconds: float = float("inf")) -> RecordedJudge:
        while True:
            progress = self._judging.advance(is_over=is_over, max_seconds=max_seconds)
            for alias in progress.restarted:
                self.events[alias] = []
            for alias, event in progress.events:
                self.events[alias].append(encode(event))
            self.states |= progress.rules
            if not progress.has_more:
                return self


def different(one: RecordedJudge, other: RecordedJudge) -> dict[str, tuple]:
    """Return the rules on which two judges differ, with their results."""
    verdict_names = {name: [(judge.events[name], judge.states.get(name)) for judge in (one, other)] for name in RULES}
    return {name: tuple(pair) for name, pair in verdict_names.items() if pair[0] != pair[1]}


def judge_afterwards(path: str) -> RecordedJudge:
    return RecordedJudge(path, is_over=True).advance(is_over=True)


def judged_in_all_ways(
    scenario: Sequence[Part],
    rules: dict[str, Callable[[], Rule]],
    rows: int,
    batches: int,
    look: int,
    restart: int,
    **layout: int,
) -> RecordedJudge:
    """Return the results of rules on a finished scenario, after checking that they are the same in all other ways.

    Args:
        layout: The batches and segments of the run that is judged once.
    """
    this = sys.modules[__name__]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(this, "RULES", rules):
        once = judge_afterwards(RunWriter(f"{folder}/once", **layout).write_all(scenario).end().path)
        writer = RunWriter(f"{folder}/live", batch_rows=rows, segment_batches=batches)
        live = RecordedJudge(writer.path)
        for count, _ in enumerate(writer.grow(scenario)):
            if count == restart:
                live.restart()
            if count % look == 0:
                live.advance(max_seconds=0.0)
        writer.end()
        live.advance(is_over=True)
        again = judge_afterwards(writer.path)
        assert different(live, once) == {}
        assert different(again, once) == {}
        assert (live.events, live.states) == (once.events, once.states)
        assert (again.events, again.states) == (once.events, once.states)
        assert all(state["error"] is None for state in once.states.values())
        return once


@settings(deadline=None, max_examples=25)
@given(
    scenario=scenarios(is_rich=True),
    rows=st.integers(1, 5),
    batches=st.integers(1, 3),
    look=st.integers(1, 6),
    restart=st.integers(0, 20),
)
def test_verdicts_are_the_same_live_afterwards_restarted_and_with_other_segments(
    scenario: Sequence[Part], rows: int, batches: int, look: int, restart: int
) -> None:
    judged_in_all_ways(scenario, RULES, rows, batches, look, restart)


@pytest.mark.parametrize("name", [name for name, make in RULES.items() if not make().needs().runs])
def test_a_worker_with_late_data_gets_the_same_verdicts(tmp_path, name: str) -> None:
    first = [Capture(step, {"loss": {"value": 1.0}}) for step in range(9)]
    late = [Capture(step, {"loss": {"value": float("nan")}}, worker="rank1-2") for step in range(9)]
    beats = [SystemSample(START_NS + 10**9 * index) for index in range(8)]
    writer = RunWriter(tmp_path / "live")
    live = RecordedJudge(writer.path)
    for _ in writer.grow([*first, *beats, *late]):
        live.advance()
    writer.end()
    afterwards = judge_afterwards(RunWriter(tmp_path / "once").write_all([*late, *first, *beats]).end().path)
    assert live.advance(is_over=True).events[name] == afterwards.events[name]
    assert live.states[name] == afterwards.states[name]
