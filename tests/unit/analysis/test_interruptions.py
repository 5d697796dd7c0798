"""Interruptions of a run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from timelines import merge_by_time, training

from leadline.analysis.digest import Digest
from leadline.analysis.job import interruptions
from leadline.reader.run import Run
from leadline.records.documents import RunStatus, Transition
from leadline.testing.runs import SECOND_NS, START_NS, RunWriter


@pytest.fixture
def steps(tmp_path: Path) -> pa.Table:
    """Twenty steps of 0.1 s, a pause of 30 s, twenty steps, a pause of 2 s, twenty steps."""
    parts, start = [], START_NS
    for number, pause in enumerate((30, 2, 0)):
        parts.append(training([{"forward": 100.0}] * 20, start_ns=start, first_step=20 * number, has_captures=False))
        start += (2 + pause) * SECOND_NS
    RunWriter(tmp_path / "run").write_all(merge_by_time(*parts)).end()
    return Digest(Run(str(tmp_path / "run"))).steps(points=4000)


def test_a_long_pause_between_steps_is_an_interruption(steps: pa.Table) -> None:
    assert interruptions(RunStatus(), steps) == [(START_NS + 2 * SECOND_NS, START_NS + 32 * SECOND_NS)]


def test_a_pause_of_a_single_worker_is_not_an_interruption(steps: pa.Table, tmp_path: Path) -> None:
    busy = training([{"forward": 1000.0}] * 40, worker="rank1-2", has_captures=False)
    RunWriter(tmp_path / "other").write_all(busy).end()
    both = pa.concat_tables([steps, Digest(Run(str(tmp_path / "other"))).steps(points=4000)])
    assert interruptions(RunStatus(), both) == []


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["Starting", "InProgress", "Completed"], []),
        (["InProgress", "Interrupted", "InProgress"], [(2, 3)]),
        (["InProgress", "Stopped", "Starting", "InProgress", "Failed"], [(2, 3)]),
        (["InProgress", "Stopped", "Failed", "Starting", "Stopped", "Starting"], [(2, 4), (5, 6)]),
    ],
)
def test_the_time_from_an_end_to_a_restart_is_an_interruption(
    statuses: list[str], expected: list[tuple[int, int]]
) -> None:
    result = RunStatus(transitions=tuple(Transition(each, place) for place, each in enumerate(statuses, 1)))
    nothing = pa.table({"start_ns": pa.array([], pa.int64())})
    assert interruptions(result, nothing) == expected
