"""The time grid: records since the previous moment, independent of when they are read."""

from __future__ import annotations

from typing import Any

import pytest
from timelines import CPU, IOWAIT, WORKER, merge_by_time, sampled, step_rows, training

from leadline.reader.interval import PhaseKey, RowArgs, parse_row_args
from leadline.reader.timegrid import TimeGrid
from leadline.records.needs import MetricNeed, Needs
from leadline.testing.runs import SECOND_NS, START_NS, RunWriter

NEEDS = Needs(scan_seconds=1.0, metrics=(MetricNeed("cpu", "utilization_percent"),), phases=("step", "data"))


def seen(grid: TimeGrid) -> list[tuple[list[float], list[int]]]:
    """Return the sample values and completed steps of each moment."""
    return [
        (
            [value for each in scan.interval.samples("cpu", "utilization_percent") for value in each.values.tolist()],
            [step for each in scan.interval.spans("step") for step in each.steps.tolist()],
        )
        for scan in grid.scans()
    ]


def test_a_record_belongs_to_the_moment_after_its_end(tmp_path) -> None:
    run_parts = merge_by_time(
        sampled({CPU: [1.0, 2.0, 3.0, 4.0], IOWAIT: [9.0] * 4}),
        training([{"data": 100.0, "forward": 300.0}] * 5),
    )
    path = RunWriter(tmp_path / "run", batch_rows=3).write_all(run_parts).end().path
    grid = TimeGrid(START_NS, path, [NEEDS])
    grid.refresh(is_over=True)
    assert seen(grid) == [([1.0, 2.0], [0, 1]), ([3.0, 4.0], [2, 3, 4])]
    assert not grid.has_late_data


def test_records_that_are_not_needed_are_not_kept(tmp_path) -> None:
    run_parts = merge_by_time(
        sampled({CPU: [1.0] * 4, IOWAIT: [9.0] * 4}), training([{"data": 100.0, "forward": 300.0}] * 5)
    )
    path = RunWriter(tmp_path / "run").write_all(run_parts).end().path
    grid = TimeGrid(START_NS, path, [NEEDS])
    grid.refresh(is_over=True)
    first = next(grid.scans()).interval
    assert first.samples("cpu", "iowait_percent") == []
    assert {each.key.name for each in first.spans()} == {"step", "data"}


def test_late_data_is_noticed_and_a_restart_returns_everything(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(sampled({CPU: [50.0] * 20}))
    grid = TimeGrid(START_NS, writer.path, [NEEDS])
    grid.refresh()
    assert len(list(grid.scans())) == 8
    writer.write_all(step_rows(0, START_NS, {"data": 400.0}))
    grid.refresh()
    assert grid.has_late_data
    grid.restart()
    moments = seen(grid)
    assert moments[0] == ([50.0, 50.0], [0])
    assert len(moments) == 6, "it waits longer for what comes late"
    grid.finish()
    assert [steps for _, steps in seen(grid)] == [[]] * 4


@pytest.mark.parametrize(
    ("args", "place"),
    [
        ("{}", ("", 1)),
        ('{"within": "backward"}', ("backward", 1)),
        ('{"op": "x"}', ("", 1)),
        ('{"every": 4, "count": 2}', ("", 4)),
        ('{"every": 0}', ("", 1)),
        ("[]", ("", 1)),
        ('{"ready_ns": 70, "run_delay_ns": 50}', ("", 1, 70, 50)),
        ('{"ready_ns": "many"}', ("", 1)),
        ('{"host_ready_ns": 7}', ("", 1, -1, -1, 7)),
        ('{"host_cpu_ns": 7}', ("", 1, -1, -1, 7)),
    ],
)
def test_row_args_contain_the_enclosing_phase_and_the_weight(args: str, place: tuple[Any, ...]) -> None:
    assert parse_row_args(args) == RowArgs(*place)


def test_nested_rows_are_separate_spans(tmp_path) -> None:
    rows = step_rows(3, START_NS, {"backward": 50.0, "collective": 20.0}, within={"collective": "backward"})
    path = RunWriter(tmp_path / "run").write_all([*rows, *sampled({CPU: [1.0] * 2})]).end().path
    grid = TimeGrid(START_NS, path, [Needs(scan_seconds=1.0, phases=("collective", "backward"))])
    grid.refresh(is_over=True)
    (scan,) = grid.scans()
    keys = [each.key for each in scan.interval.spans()]
    assert keys == [PhaseKey(WORKER, "train", "backward", ""), PhaseKey(WORKER, "train", "collective", "backward")]
    assert scan.interval.spans("collective")[0].durations_ns.tolist() == [20 * SECOND_NS // 1000]


def test_facts_are_those_of_the_workers_and_their_nodes(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(sampled({CPU: [1.0] * 4}))
    writer.write_worker(WORKER, facts={"dataloader_workers": 3})
    writer.write_node("node", cpu_count=8)
    grid = TimeGrid(START_NS, writer.path, [Needs(scan_seconds=1.0, facts=True)])
    grid.refresh(is_over=True)
    assert next(grid.scans()).facts == {WORKER: {"dataloader_workers": 3, "node": "node", "cores": 8}}
