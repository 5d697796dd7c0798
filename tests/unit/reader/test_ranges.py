"""Queries of timelines and metrics by range, step and device, compared with a plain loop."""

from __future__ import annotations

import pytest
from timelines import CPU, IOWAIT, MS, gpu, merge_by_time, sampled, training

from leadline.reader.run import Run, open_run
from leadline.testing.runs import SECOND_NS, START_NS, Part, RunWriter, SystemSample, TimelineEvent

TRAININGS = [training([{"data": 40.0, "forward": 60.0}] * 20, worker=f"rank{rank}-{rank}") for rank in (0, 1)]
SAMPLES = [sampled({CPU: [1.0] * 6, IOWAIT: [2.0] * 6, gpu(0): [3.0] * 6}, node=node) for node in ("a", "b")]
RUN_PARTS: list[Part] = merge_by_time(*TRAININGS, *SAMPLES)
EVENTS = [(part.worker, part.event) for part in RUN_PARTS if isinstance(part, TimelineEvent)]
BEATS = [part for part in RUN_PARTS if isinstance(part, SystemSample)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("ranges") / "run"
    return open_run(RunWriter(path, batch_rows=7, segment_batches=3).write_all(RUN_PARTS).end().path)


def test_all_rows_are_returned_once_in_order(run: Run) -> None:
    timeline, system = run.timeline(), run.system_metrics()
    assert (timeline.num_rows, system.num_rows) == (len(EVENTS), len(BEATS))
    assert timeline["start_ns"].to_pylist() == sorted(each.start_ns for _, each in EVENTS)
    assert system["time_ns"].to_pylist() == sorted(each.time_ns for each in BEATS)


def test_rows_are_selected_by_step_name_and_worker(run: Run) -> None:
    found = run.timeline("data", worker="rank1-1", start_step=3, end_step=6).to_pylist()
    assert [(each["step"], each["name"], each["worker"]) for each in found] == [
        (s, "data", "rank1-1") for s in (3, 4, 5)
    ]
    assert run.timeline(phase="eval").num_rows == 0
    assert run.timeline("step").num_rows == 40


@pytest.mark.parametrize(("start", "end"), [(250, 610), (300, 300), (0, 40), (1999, 5000)])
def test_a_time_range_returns_overlapping_rows(run: Run, start: int, end: int) -> None:
    low, high = START_NS + start * MS, START_NS + end * MS
    expected = sorted(
        (each.start_ns, worker, each.name)
        for worker, each in EVENTS
        if each.start_ns < high and (each.start_ns + each.duration_ns > low or each.start_ns == low)
    )
    found = run.timeline(start_ns=low, end_ns=high).to_pylist()
    assert sorted((each["start_ns"], each["worker"], each["name"]) for each in found) == expected


def test_samples_are_selected_by_device_node_and_time(run: Run) -> None:
    low, high = START_NS + SECOND_NS, START_NS + 2 * SECOND_NS
    found = run.system_metrics("gpu", "gpu0", "utilization_percent", node="b", start_ns=low, end_ns=high)
    assert found.to_pylist() == [
        {"time_ns": at, "node": "b", "kind": "gpu", "device": "gpu0", "metric": "utilization_percent", "value": 3.0}
        for at in (low, low + SECOND_NS // 2)
    ]
    assert run.system_metrics(metric="iowait_percent")["value"].to_pylist() == [2.0] * 12
    assert run.system_metrics("disk").num_rows == 0


def test_a_run_without_either_has_empty_tables(tmp_path) -> None:
    empty = open_run(RunWriter(tmp_path / "run").end().path)
    assert (empty.timeline(start_ns=0, end_ns=1).num_rows, empty.system_metrics(start_ns=0).num_rows) == (0, 0)
