"""Live == afterwards == after a restart == another cut of segments, for every rule."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.judge.evaluator import Evaluator
from leadline.rules.registry import BUILT_IN, find_rule
from leadline.rules.rule import Rule
from leadline.store.documents import encode
from leadline.testing.runs import START_NS, Capture, Heartbeat, Part, RunWriter
from leadline.testing.scenarios import scenarios

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


class Hearing:
    """What a judge would have written down; of a run that is over from the start the stream is read once for all."""

    def __init__(self, path: str, *, is_over: bool = False) -> None:
        self._path, self._is_over = path, is_over
        self.restart()

    def restart(self) -> None:
        self.events: dict[str, list[bytes]] = {name: [] for name in RULES}
        self.states: dict[str, dict] = {}
        rules = [(name, make()) for name, make in RULES.items()]
        self._judging = Evaluator(self._path, rules, started_ns=START_NS, is_over=self._is_over)

    def listen(self, *, is_over: bool = False, most_seconds: float = float("inf")) -> Hearing:
        while True:
            progress = self._judging.advance(is_over=is_over, most_seconds=most_seconds)
            for alias in progress.begun_again:
                self.events[alias] = []
            for alias, event in progress.events:
                self.events[alias].append(encode(event))
            self.states |= progress.rules
            if not progress.has_more:
                return self


def different(one: Hearing, other: Hearing) -> dict[str, tuple]:
    """The rules of which two judges do not say the same, with what they say."""
    said = {name: [(each.events[name], each.states.get(name)) for each in (one, other)] for name in RULES}
    return {name: tuple(each) for name, each in said.items() if each[0] != each[1]}


def judge_afterwards(path: str) -> Hearing:
    return Hearing(path, is_over=True).listen(is_over=True)


def judged_in_all_ways(
    story: Sequence[Part],
    rules: dict[str, Callable[[], Rule]],
    rows: int,
    batches: int,
    look: int,
    restart: int,
    **layout: int,
) -> Hearing:
    """What rules say of a story once it is over, after it was held to be the same live, restarted and cut otherwise.

    Args:
        layout: How the run is stored that is judged once.
    """
    this = sys.modules[__name__]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(this, "RULES", rules):
        once = judge_afterwards(RunWriter(f"{folder}/once", **layout).write_all(story).end().path)
        writer = RunWriter(f"{folder}/live", batch_rows=rows, segment_batches=batches)
        live = Hearing(writer.path)
        for count, _ in enumerate(writer.grow(story)):
            if count == restart:
                live.restart()
            if count % look == 0:
                live.listen(most_seconds=0.0)
        writer.end()
        live.listen(is_over=True)
        again = judge_afterwards(writer.path)
        assert different(live, once) == {}
        assert different(again, once) == {}
        assert (live.events, live.states) == (once.events, once.states)
        assert (again.events, again.states) == (once.events, once.states)
        assert all(each["error"] is None for each in once.states.values())
        return once


@settings(deadline=None, max_examples=25)
@given(
    story=scenarios(is_rich=True),
    rows=st.integers(1, 5),
    batches=st.integers(1, 3),
    look=st.integers(1, 6),
    restart=st.integers(0, 20),
)
def test_verdicts_are_the_same_live_afterwards_restarted_and_cut_otherwise(
    story: Sequence[Part], rows: int, batches: int, look: int, restart: int
) -> None:
    judged_in_all_ways(story, RULES, rows, batches, look, restart)


@pytest.mark.parametrize("name", [name for name, make in RULES.items() if not make().needs().runs])
def test_a_worker_that_comes_late_is_judged_as_if_it_had_been_there(tmp_path, name: str) -> None:
    first = [Capture(step, {"loss": {"value": 1.0}}) for step in range(9)]
    late = [Capture(step, {"loss": {"value": float("nan")}}, worker="rank1-2") for step in range(9)]
    beats = [Heartbeat(START_NS + 10**9 * each) for each in range(8)]
    writer = RunWriter(tmp_path / "live")
    live = Hearing(writer.path)
    for _ in writer.grow([*first, *beats, *late]):
        live.listen()
    writer.end()
    afterwards = judge_afterwards(RunWriter(tmp_path / "once").write_all([*late, *first, *beats]).end().path)
    assert live.listen(is_over=True).events[name] == afterwards.events[name]
    assert live.states[name] == afterwards.states[name]
