"""duplicate_batches: equal batches on ranks, what only looks like them, and batches that come several times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.tensors.duplicate_batches import DuplicateBatches
from leadline.statistics.bits import fingerprints
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts

INPUT, REPLICAS = "Net_input_0", "Net/replicas"
DATA = np.random.default_rng(0).normal(size=(40, 8, 4))
"""Batches of 8 samples."""


def judge(*ranks: Sequence[np.ndarray], replicas: float | None = 2.0) -> list[Verdict]:
    """Return the verdicts on the batches of each rank."""
    parts: list[Part] = []
    for step in range(len(ranks[0])):
        for rank, batches in enumerate(ranks):
            infos = {
                INPUT: TensorInfo(INPUT, ("inputs",), batches[step].shape),
                REPLICAS: TensorInfo(REPLICAS, ("checks",), ()),
            }
            worker = f"rank{rank}-{rank}"
            if replicas is not None:
                parts.append(Capture(step, {REPLICAS: {"value": replicas}}, worker=worker, infos=infos))
            arrays = {INPUT: {"fingerprints": fingerprints(batches[step]).tolist()}}
            parts.append(ArrayStatistics(step, arrays, worker=worker, infos=infos))
    return [verdict for _, verdict in verdicts(DuplicateBatches(), parts)]


def test_equal_batches_on_all_ranks_fire_at_the_third_captured_step() -> None:
    results = judge(DATA, DATA)
    assert [type(verdict) for verdict in results[:4]] == [Clear, Undecided, Fired, Fired]
    assert results[2].message == (
        "rank0-0 and rank1-1 were given the same batches, to the bit, at 3 captured steps in a row"
    )
    assert results[2].worker == "rank1-1"


def test_ranks_with_other_batches_are_clear() -> None:
    assert judge(DATA[:10], DATA[10:20])[-1] == Clear()
    assert judge(DATA[:10], DATA[:10, ::-1])[-1] == Clear()
    third = [*DATA[:9], DATA[12]]
    assert judge(DATA[:10], DATA[:10], third, replicas=3.0)[-1] == Clear()


def test_one_batch_for_the_whole_training_is_no_finding() -> None:
    assert set(judge([DATA[0]] * 9, [DATA[0]] * 9)) == {Clear()}


def test_small_and_constant_inputs_are_not_compared() -> None:
    numbers = [np.full((1, 1), float(step)) for step in range(9)]
    constant = [np.full((8, 4), float(step)) for step in range(9)]
    for inputs in (numbers, constant):
        assert set(map(type, judge(inputs, inputs))) == {Undecided}
    rows = [DATA[step][:1].repeat(4, axis=1) for step in range(9)]
    assert isinstance(judge(rows, rows)[-1], Fired)


@pytest.mark.parametrize("replicas", [0.0, 1.0])
def test_ranks_that_may_be_parallel_otherwise_are_not_judged(replicas: float) -> None:
    assert set(map(type, judge(DATA[:5], DATA[:5], replicas=replicas))) == {NotApplicable}


def test_one_process_is_not_judged() -> None:
    assert set(judge(DATA[:9], replicas=None)) == {NotApplicable("one process")}
    only_one = Undecided("no input of the model was captured on two processes at this step")
    assert set(judge(DATA[:9], replicas=2.0)) == {only_one}


def test_one_process_of_which_no_input_is_captured_is_not_judged_either() -> None:
    infos = {"loss": TensorInfo("loss", ("losses",), ()), REPLICAS: TensorInfo(REPLICAS, ("checks",), ())}
    losses = [Capture(step, {"loss": {"value": 1.0}}, infos=infos) for step in range(9)]
    assert {verdict for _, verdict in verdicts(DuplicateBatches(), losses)} == {NotApplicable("one process")}
    ranks = [Capture(0, {REPLICAS: {"value": 2.0}}, infos=infos), *losses]
    assert {type(verdict) for _, verdict in verdicts(DuplicateBatches(), ranks)} == {Undecided}


@pytest.mark.parametrize("order", [(0, 0, 1, 1, 2, 2), (0, 0, 0, 1, 1, 1), (0, 0, 0, 0, 1, 1)])
def test_batches_that_come_several_times_in_a_row_are_remarked(order: Sequence[int]) -> None:
    verdict = judge([DATA[at] for at in (*order, 9)], replicas=None)[-1]
    assert isinstance(verdict, Clear)
    assert verdict.product["remarks"][0].startswith("each batch of the first 6 steps came several times in a row: ")


@pytest.mark.parametrize("order", [(0, 0, 0, 0, 0, 0), (0, 1, 0, 1, 0, 1), (0, 0, 1, 1, 2, 3), (0, 0, 1, 1)])
def test_other_orders_are_not_remarked(order: Sequence[int]) -> None:
    assert judge([DATA[at] for at in order], replicas=None)[-1] == NotApplicable("one process")


@pytest.mark.parametrize("is_shared", [True, False])
def test_all_inputs_of_a_model_are_compared(is_shared: bool) -> None:
    """A graph that all ranks share says nothing of what else they are given, however small that is."""
    parts: list[Part] = []
    for step in range(9):
        for rank in range(2):
            nodes = np.array([[step + (0 if is_shared else 100 * rank)]])
            arrays = {"Net_input_0": DATA[step % 2], "Net_input_1": nodes, "Other_input_1": nodes}
            infos = {name: TensorInfo(name, ("inputs",), array.shape) for name, array in arrays.items()}
            infos[REPLICAS] = TensorInfo(REPLICAS, ("checks",), ())
            worker = f"rank{rank}-{rank}"
            parts.append(Capture(step, {REPLICAS: {"value": 2.0}}, worker=worker, infos=infos))
            prints = {name: {"fingerprints": fingerprints(array).tolist()} for name, array in arrays.items()}
            parts.append(ArrayStatistics(step, prints, worker=worker, infos=infos))
    assert isinstance(verdicts(DuplicateBatches(), parts)[-1][1], Fired if is_shared else Clear)
