"""A Horovod timeline, written by a real process: imported into the run while it grows, in wall-clock time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from chrome_trace import read_trace, tracks
from launching import only_run, script, started, wait_for, watched

from leadline.cli import export
from leadline.reader.run import Run

TENSORS = {"conv1.weight", "conv1.bias", "head.weight"}
ACTIVITIES = {"CYCLE_START", "NEGOTIATE_ALLREDUCE", "0", "ALLREDUCE", "MPI_ALLREDUCE"}


def check(run: Run, path: Path) -> None:
    """Check that the rows equal those of the file."""
    rows = run.horovod().to_pylist()
    assert {row["tensor"] for row in rows} == TENSORS | {""}  # a cycle is of all tensors
    assert {row["activity"] for row in rows} == ACTIVITIES
    assert {row["depth"] for row in rows if row["activity"] == "MPI_ALLREDUCE"} == {1}
    assert len(rows) == sum(path.read_text().count(f'"ph": "{kind}"') for kind in "EXi")
    assert all(row["duration_ns"] >= 2_000_000 for row in rows if row["activity"] == "MPI_ALLREDUCE")


@pytest.mark.slow
def test_the_timeline_is_followed_while_it_grows_and_exported(tmp_path: Path) -> None:
    path, waits = tmp_path / "horovod.json", tmp_path / "it"
    with started(
        (), script("with_horovod.py"), "20", str(waits), folder=tmp_path, HOROVOD_TIMELINE="horovod.json"
    ) as job:
        wait_for(Path(f"{waits}.waits").exists, "the middle")
        run = only_run(tmp_path / "runs")
        expected = 11 * 3
        wait_for(lambda: count(run, "MPI_ALLREDUCE") == expected, "the agent's copy")
        assert count(run, "ALLREDUCE") == expected  # the event of the incomplete line is missing
        Path(f"{waits}.go").touch()
        ended = job.wait()
    assert ended.status == 0, ended.err
    check(ended.run, path)
    assert count(ended.run, "ALLREDUCE") == 20 * 3 + 1
    check_clock(ended.run)
    export.export(ended.run.path, "perfetto", str(tmp_path / "trace.json"), None, None)
    trace = tracks(read_trace(str(tmp_path / "trace.json")))
    (worker,) = ended.run.workers()
    assert {f"Horovod {tensor}" for tensor in TENSORS} <= {track for name, track in trace if name == worker}
    assert len(trace[worker, "Horovod head.weight"]) == 20 * 4


def count(run: Run, activity: str) -> int:
    return int(pc.sum(pc.equal(run.horovod()["activity"], activity)).as_py() or 0)


def check_clock(run: Run) -> None:
    """Check that all events are between the start of the first and the end of the last step."""
    steps: Any = run.timeline("step")
    first = pc.min(steps["start_ns"]).as_py()
    last = pc.max(pc.add(steps["start_ns"], steps["duration_ns"])).as_py()
    rows = run.horovod()
    assert first <= pc.min(rows["start_ns"]).as_py()
    assert pc.max(pc.add(rows["start_ns"], rows["duration_ns"])).as_py() <= last


@pytest.mark.slow
def test_a_timeline_left_by_an_earlier_run_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "horovod.json").write_text('[\n{"ph": "X", "name": "OLD", "ts": 1, "dur": 1, "pid": 0},\n')
    ended = watched((), script("profiled.py"), "out", "5", folder=tmp_path, HOROVOD_TIMELINE="horovod.json")
    assert len(ended.run.horovod()) == 0
