"""The incarnation of workers that were started again within a job."""

from __future__ import annotations

import os
import time
from pathlib import Path

import leadline
from leadline.reader.restart import restart
from leadline.records.request import Stop
from leadline.store import layout
from leadline.store.control import write_request
from leadline.store.incarnations import read_incarnations
from leadline.store.run_state import read_status
from leadline.store.terms import last_agent
from leadline.testing.runs import Capture, RunWriter


def run_of(tmp_path: Path) -> str:
    writer = RunWriter(tmp_path / "run")
    writer.write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(5)])
    return writer.path


def test_each_restart_begins_one_incarnation_and_the_job_goes_on(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    status, agent = read_status(run), last_agent(run)
    compacted = Path(run, layout.COMPACT, "series")
    compacted.mkdir(parents=True)
    Path(run, layout.COMPACT_LOCK).touch()
    Path(run, layout.worker_exit("rank0-1")).write_bytes(bytes([7]))
    assert [restart(run, 1), restart(run, 1)] == [True, False]
    incarnations = read_incarnations(run)
    assert (incarnations.number, incarnations.restarts, incarnations.job) == (1, 1, 0)
    start = incarnations.starts[0]
    assert (start.status, start.exit_status, start.steps) == ("Failed", 7, 5)
    assert incarnations.end.step == 5
    assert not compacted.exists()
    assert restart(run, 2)
    assert [start.restarts for start in read_incarnations(run).starts] == [1, 2]
    assert (read_status(run), last_agent(run)) == (status, agent), "its agent and judge are the same"
    assert not os.path.exists(os.path.join(run, layout.RESUME_LOCK))
    assert leadline.open_run(run).steps() == list(range(5)), "nothing is replaced before the workers have begun"


def test_nothing_is_continued_after_a_stop(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    write_request(run, Stop("1-a", "test", "user", time.time_ns()))
    assert not restart(run, 1)
    assert read_incarnations(run).number == 0
