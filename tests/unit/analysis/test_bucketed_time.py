"""Time breakdown from buckets, compared with the breakdown from every step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from system_scenarios import system_scenario
from timelines import MEMORY, merge_by_time, sampled, training

from leadline.analysis.bucketed_time import bucketed_time_breakdown, points_for, ranks_of, read_buckets, read_samples
from leadline.analysis.digest import Digest
from leadline.analysis.ranks import compare_ranks
from leadline.analysis.steps import read_steps
from leadline.analysis.time_breakdown import time_breakdown
from leadline.reader.run import Run
from leadline.testing.runs import SECOND_NS, START_NS, RunWriter


@pytest.mark.parametrize("seed", [1, 2, 5, 11])
def test_a_short_run_equals_the_exact_breakdown(tmp_path: Path, seed: int) -> None:
    writer = RunWriter(tmp_path / "run").write_all(system_scenario(seed)).end()
    writer.set_status("Completed", ended_ns=START_NS + 60 * SECOND_NS)
    run = Run(str(tmp_path / "run"))
    expected = time_breakdown(
        run.path, run.timeline(), run.system_metrics(), ended_ns=run.status_document.ended_ns, verdicts={}
    ).to_dict()
    assert json.dumps(bucketed_time_breakdown(run, Digest(run)).to_dict()) == json.dumps(expected)


def test_buckets_keep_time_and_count(tmp_path: Path) -> None:
    steps = [{"data": 1.0 + step % 7, "forward": 10.0, "backward": 20.0} for step in range(1000)]
    RunWriter(tmp_path / "run").write_all(training(steps, other_ms=1.5)).end()
    run = Run(str(tmp_path / "run"))
    exact, result = read_steps(run.timeline()), read_buckets(Digest(run).steps(points=50))
    assert len(result) <= 50
    assert result.count() == exact.count() == 1000
    assert result.seconds() == pytest.approx(exact.seconds(), rel=1e-6)
    for phase, seconds in exact.seconds_by_phase().items():
        assert result.seconds_by_phase()[phase] == pytest.approx(seconds, rel=1e-6)


def test_a_slow_rank_is_found_in_buckets_too(tmp_path: Path) -> None:
    usual = {"data": 5.0, "forward": 20.0, "backward": 40.0, "collective": 50.0}
    slow = {"data": 50.0, "forward": 20.0, "backward": 40.0, "collective": 5.0}
    ranks = [
        training([slow if rank == 2 else usual] * 500, worker=f"rank{rank}-{rank}", has_captures=False)
        for rank in range(4)
    ]
    RunWriter(tmp_path / "run", batch_rows=200).write_all(merge_by_time(*ranks)).end()
    digest = Digest(Run(str(tmp_path / "run")))
    found = compare_ranks(read_buckets(digest.steps(mode="train", points=40)))
    assert found is not None
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.phase) == (2, "data")
    assert found.straggler.lost_ms == pytest.approx(45.0)


def test_without_timed_steps_there_is_no_bottleneck(tmp_path: Path) -> None:
    RunWriter(tmp_path / "run").write_all([]).end()
    run = Run(str(tmp_path / "run"))
    found = bucketed_time_breakdown(run, Digest(run))
    assert len(found.steps) == 0
    assert found.bottleneck is None
    assert found.ranks is None
    assert found.job.loop_started_ns is None


def test_samples_are_the_means_of_buckets(tmp_path: Path) -> None:
    RunWriter(tmp_path / "run").write_all(sampled({MEMORY: [10.0, 20.0, 30.0, 40.0]})).end()
    table = read_samples(Digest(Run(str(tmp_path / "run"))).system(points=4000))
    assert np.mean(table["value"].to_numpy()) == 25.0
    assert set(table.column_names) == {"time_ns", "node", "kind", "device", "metric", "value"}


def test_many_workers_get_fewer_buckets_each() -> None:
    assert points_for(1) == 2000
    assert points_for(1000) == 200
    assert points_for(10**6) == 20
    assert points_for(0) == 2000


def test_ranks_are_compared_again_after_new_data(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run")
    digest = Digest(Run(writer.path))
    assert ranks_of(digest) is None
    for rank in range(2):
        writer.write_all(training([{"forward": 10.0}] * 5, worker=f"rank{rank}-{rank}", has_captures=False))
    digest.run.refresh()
    digest.refresh()
    found = ranks_of(digest)
    assert found is not None
    assert found.steps == 5
    assert ranks_of(digest) is found
