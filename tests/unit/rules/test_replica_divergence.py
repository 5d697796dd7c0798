"""replica_divergence: detection of replicas, and the worker that differs."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.tensors.replica_divergence import ReplicaDivergence
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

REPLICAS = "Net/replicas"
UNKNOWN = Undecided("no parameter was equal on all processes at two captures", stage="too few")


def judge(*steps: tuple[float, ...], replicas: float | None = None, **settings: bool) -> list[Verdict]:
    parts = [
        captured(step, {"a.weight": {"checksum": value}}, worker=f"rank{rank}-{rank}")
        for step, sums in enumerate(steps)
        for rank, value in enumerate(sums)
    ]
    if replicas is not None:
        infos = {REPLICAS: TensorInfo(REPLICAS, ("checks",), ())}
        values = {REPLICAS: {"value": replicas}}
        parts += [Capture(0, values, worker=f"rank{rank}-{rank}", infos=infos) for rank in range(len(steps[0]))]
    return [verdict for _, verdict in verdicts(ReplicaDivergence(), parts, **settings)]


def test_diverging_replicas_fire_and_the_odd_one_is_named() -> None:
    results = judge((1.0, 1.0, 1.0), (2.0, 2.0, 2.0), (3.0, 4.0, 3.0), (5.0, 5.0, 5.0))
    assert [type(verdict) for verdict in results] == [Undecided, Clear, Fired, Clear]
    assert results[2].message == "a.weight: 2 different versions on 3 workers at step 2; rank1-1 differs"
    assert results[2].worker == "rank1-1"


@pytest.mark.parametrize("ranks", [(0, 1), (0,)])
def test_a_wrapper_that_was_never_called_is_the_cause(ranks: tuple[int, ...]) -> None:
    numbers = {REPLICAS: 2.0, "Net/never_called_wrapper": 1.0}
    parts = [captured(0, {"a.weight": {"checksum": float(rank)}}, worker=f"rank{rank}-{rank}") for rank in (0, 1)]
    for rank in (0, 1):
        known = {name: number for name, number in numbers.items() if name == REPLICAS or rank in ranks}
        infos = {name: TensorInfo(name, ("checks",), ()) for name in known}
        values = {name: {"value": number} for name, number in known.items()}
        parts.append(Capture(0, values, worker=f"rank{rank}-{rank}", infos=infos))
    ((_, verdict),) = verdicts(ReplicaDivergence(), parts)
    assert isinstance(verdict, Fired)
    assert ("DistributedDataParallel was never called" in verdict.message) == (len(ranks) == 2)


def test_of_two_replicas_the_second_is_named() -> None:
    assert judge((1.0, 1.0), (2.0, 2.0), (3.0, 4.0))[-1].worker == "rank1-1"


@pytest.mark.parametrize("replicas", [None, 0.0])
def test_workers_that_were_never_equal_twice_are_not_known_to_be_replicas(replicas: float | None) -> None:
    assert set(judge((1.0, 1.0), (1.0, 1.0), (3.0, 4.0), replicas=replicas)) == {UNKNOWN}
    assert set(judge((1.0, 2.0), (3.0, 4.0), (5.0, 6.0), replicas=replicas)) == {UNKNOWN}


def test_a_wrapper_tells_that_they_are_replicas() -> None:
    results = judge((1.0, 1.0), (3.0, 4.0), (5.0, 6.0), replicas=2.0)
    assert [type(verdict) for verdict in results] == [Clear, Fired, Fired]
    assert isinstance(judge((1.0, 2.0), replicas=2.0)[0], Fired)


def test_sharded_parameters_have_no_replicas() -> None:
    assert set(map(type, judge((1.0, 2.0), (3.0, 4.0), replicas=1.0))) == {NotApplicable}


def test_one_process_cannot_diverge() -> None:
    assert set(judge((1.0,), (2.0,), (3.0,))) == {NotApplicable("one process")}
    assert set(judge((1.0,), (2.0,), replicas=2.0)) == {Undecided("only one of several processes is captured")}


def averaged(*steps: tuple[tuple[float, float], tuple[float, float]]) -> list[Verdict]:
    """Return the verdicts on steps with the checksums of a parameter and of its gradient on two workers."""
    parts = [
        captured(
            step,
            {"a.weight": {"checksum": weights[rank]}, "gradient/a.weight": {"checksum": gradients[rank]}},
            worker=f"rank{rank}-{rank}",
        )
        for step, (weights, gradients) in enumerate(steps)
        for rank in range(2)
    ]
    return [verdict for _, verdict in verdicts(ReplicaDivergence(), parts)]


def test_averaged_gradients_of_weights_that_were_never_equal_fire() -> None:
    results = averaged(((1.0, 2.0), (7.0, 7.0)), ((3.0, 4.0), (8.0, 8.0)), ((5.0, 6.0), (9.0, 9.0)))
    assert [type(verdict) for verdict in results] == [Undecided, Fired, Fired]
    assert results[1].message == "a.weight: the gradients are equal on 2 workers, and the weights have never been"


def test_gradients_that_are_not_averaged_or_do_not_change_show_nothing() -> None:
    assert averaged(((1.0, 2.0), (7.0, 8.0)), ((3.0, 4.0), (9.0, 10.0)))[-1] == UNKNOWN
    assert averaged(((1.0, 2.0), (0.0, 0.0)), ((1.0, 2.0), (0.0, 0.0)))[-1] == UNKNOWN
    assert averaged(((1.0, 1.0), (7.0, 7.0)), ((3.0, 4.0), (8.0, 8.0)))[-1] == UNKNOWN


def test_without_a_checksum_it_is_undecided() -> None:
    assert isinstance(judge((math.nan, math.nan))[0], Undecided)
    assert isinstance(judge((1.0, 1.0), (2.0, 2.0), (3.0, math.nan))[-1], Undecided)
    assert isinstance(judge((1.0, 1.0), (2.0, 2.0), is_incomplete=True)[1], Undecided)
