"""replica_divergence: detection of replicas, and the worker that differs."""

from __future__ import annotations

import math

from rule_scenarios import captured

from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.replica_divergence import ReplicaDivergence
from leadline.testing.windows import verdicts


def judge(*steps: tuple[float, ...], **settings: bool) -> list[Verdict]:
    parts = [
        captured(step, {"a.weight": {"checksum": value}}, worker=f"rank{rank}-{rank}")
        for step, sums in enumerate(steps)
        for rank, value in enumerate(sums)
    ]
    return [verdict for _, verdict in verdicts(ReplicaDivergence(), parts, **settings)]


def test_diverging_replicas_fire_and_the_odd_one_is_named() -> None:
    results = judge((1.0, 1.0, 1.0), (2.0, 2.0, 2.0), (3.0, 4.0, 3.0), (5.0, 5.0, 5.0))
    assert [type(verdict) for verdict in results] == [Clear, Clear, Fired, Clear]
    assert results[2].message == "a.weight: 2 different versions on 3 workers at step 2; rank1-1 differs"
    assert results[2].worker == "rank1-1"


def test_of_two_replicas_the_second_is_named() -> None:
    assert judge((1.0, 1.0), (2.0, 2.0), (3.0, 4.0))[-1].worker == "rank1-1"


def test_workers_with_the_same_start_only_are_not_replicas() -> None:
    assert set(judge((1.0, 1.0), (1.0, 1.0), (3.0, 4.0))) == {Clear()}
    assert set(judge((1.0, 2.0), (3.0, 4.0), (5.0, 6.0))) == {Clear()}


def test_one_worker_cannot_diverge() -> None:
    assert set(judge((1.0,), (2.0,), (3.0,))) == {Clear()}


def test_without_a_checksum_it_is_undecided() -> None:
    assert isinstance(judge((math.nan, math.nan))[0], Undecided)
    assert judge((1.0, 1.0), (2.0, 2.0), (3.0, math.nan))[-1] == Clear()
    assert isinstance(judge((1.0, 1.0), is_incomplete=True)[0], Undecided)
