"""Ranks page of one worker, a few and a thousand."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from timelines import merge_by_time, training

from leadline.analysis.digest import Digest
from leadline.analysis.ranks import Ranks, SlowRank
from leadline.charts.step_charts import MAX_RANKS, charted_ranks, charted_workers
from leadline.dashboard.pages.ranks import PAGE_ROWS, rank_page, replica_names
from leadline.reader.run import Run
from leadline.testing.runs import Capture, RunWriter

Open = Callable[..., TestClient]


def write_ranks(path: Path, count: int, slow: int | None, steps: int = 30) -> RunWriter:
    stories = [
        training(
            [{"data": 55.0 if rank == slow else 5.0, "backward": 40.0, "collective": 5.0 if rank == slow else 55.0}]
            * steps,
            worker=f"rank{rank}-{rank + 50}",
        )
        for rank in range(count)
    ]
    return RunWriter(path, batch_rows=100).write_all(merge_by_time(*stories)).end()


def test_the_straggler_is_named_with_its_slow_phase(tmp_path: Path, open_dashboard: Open) -> None:
    write_ranks(tmp_path / "first", 4, slow=2)
    client = open_dashboard(tmp_path)
    page = client.get("/runs/first/ranks").text
    assert "Rank 2 is the slowest" in page
    assert "50 ms per step longer than the median rank, mostly in data loading" in page
    for name in ("rank_step_times", "rank_times"):
        said = client.get(f"/runs/first/charts/{name}.json").json()["layout"]["annotations"]
        assert any("rank 2 is slowest" in each["text"] for each in said)
    (own,) = client.get("/runs/first/charts/rank_step_times.json").json()["data"]
    seconds = np.frombuffer(base64.b64decode(own["y"]["bdata"]), own["y"]["dtype"])
    assert seconds == pytest.approx([0.045, 0.045, 0.095, 0.045], rel=0.01)  # all steps take 0.1 s
    assert "+50" in page
    durations = client.get("/runs/first/charts/rank_durations.json").json()["data"]
    assert len(durations) == 4
    replicas = client.get("/runs/first/charts/replicas.json?tensor=loss&statistic=value").json()["data"]
    assert [each["name"] for each in replicas] == [f"rank {rank}" for rank in range(4)]


def test_even_ranks_have_no_straggler(tmp_path: Path, open_dashboard: Open) -> None:
    write_ranks(tmp_path / "first", 3, slow=None)
    assert "No straggler" in open_dashboard(tmp_path).get("/runs/first/ranks").text


def test_a_single_worker_shows_a_message(tmp_path: Path, open_dashboard: Open) -> None:
    write_ranks(tmp_path / "first", 1, slow=None)
    client = open_dashboard(tmp_path)
    page = client.get("/runs/first/ranks").text
    assert 'This run has one worker, <span class="nowrap" title="rank0-50">rank 0</span>' in page
    assert "Replicas side by side" not in page
    assert client.get("/runs/first/charts/rank_durations.json").json()["data"]
    assert client.get("/runs/first/charts/rank_step_times.json").json()["layout"]["meta"]["empty"]


def test_no_worker_shows_a_message(tmp_path: Path, open_dashboard: Open) -> None:
    RunWriter(tmp_path / "first").write_all([])
    assert "No worker has started yet." in open_dashboard(tmp_path).get("/runs/first/ranks").text


def test_the_straggler_is_first_although_all_ranks_take_the_same_time_for_a_step(run: Run) -> None:
    waiting, slow = ({"step": 24.0, "own": 2.0 + host, "host": host} for host in (0.1, 20.1))
    ranks = Ranks({0: waiting, 1: slow, 2: waiting}, 10, SlowRank(1, "rank1-1", 11.0, 20.0, "host"))
    page = rank_page(run, ranks, order="slowest", page=1)
    assert [row.rank for row in page.rows] == [1, 0, 2]
    assert [row.excess_ms for row in page.rows] == pytest.approx([20.0, 0.0, 0.0])
    assert [row.rank for row in rank_page(run, ranks, order="quickest", page=1).rows] == [2, 0, 1]


def ranks_of(count: int) -> Ranks:
    return Ranks(
        {rank: {"step": 100.0 + rank, "own": 100.0 + rank, "data": 1.0, "forward": 0.0} for rank in range(count)},
        10,
        None,
    )


def charted(ranks: Ranks) -> dict[int, dict[str, float]]:
    drawn = charted_ranks(ranks)
    assert drawn is not None
    return dict(drawn.by_rank)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    writer = RunWriter(tmp_path / "run").write_all([])
    for rank in range(1000):
        writer.write_worker(f"rank{rank}-{rank}", node=f"node-{rank // 8}")
    return Run(str(tmp_path / "run"))


def test_a_thousand_ranks_are_paged_and_charts_show_slowest_and_fastest(run: Run) -> None:
    ranks = ranks_of(1000)
    first = rank_page(run, ranks, order="slowest", page=1)
    assert [each.rank for each in first.rows[:2]] == [999, 998]
    assert (len(first.rows), first.pages, first.parts) == (PAGE_ROWS, 1000 // PAGE_ROWS, ("data",))
    assert (first.rows[0].worker, first.rows[0].node) == ("rank999-999", "node-124")
    assert first.rows[0].excess_ms == 500.0
    assert rank_page(run, ranks, order="quickest", page=1).rows[0].rank == 0
    last = rank_page(run, ranks, order="rank", page=99999)
    assert (last.page, last.rows[-1].rank) == (20, 999)
    assert rank_page(run, ranks, order="nonsense", page=-5).order == "slowest"
    shown = charted(ranks)
    assert len(shown) == MAX_RANKS
    assert {0, 999} <= set(shown)
    assert charted(ranks_of(10)).keys() == set(range(10))
    assert charted_workers(run, ranks)[0] == "rank0-0"
    assert len(charted_workers(run, ranks)) == 8


def test_only_tensors_of_several_workers_are_compared(tmp_path: Path) -> None:
    alike = {"loss": {"value": 1.0}, "fc.weight": {"l2": 1.0, "abs_mean": 2.0}}
    parts = [Capture(0, alike, worker="rank0-1"), Capture(0, {**alike, "only": {"l2": 1.0}}, worker="rank1-2")]
    writer = RunWriter(tmp_path / "run").write_all(parts).end()
    assert replica_names(Digest(Run(writer.path))) == {"loss": ["value"], "fc.weight": ["abs_mean", "l2"]}
