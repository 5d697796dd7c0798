"""The profiling report of a real job, written by a separate process during the run and after the last step."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from launching import Running, script, started, wait_for

from leadline.store.documents import read_document

pytestmark = pytest.mark.slow


def report_path(folder: Path, name: str) -> Path:
    return next((folder / "runs").glob("*")) / "reports" / name


def exists(folder: Path, name: str) -> bool:
    runs = list((folder / "runs").glob("*"))
    return bool(runs) and (runs[0] / "reports" / name).exists()


def status(folder: Path) -> str:
    return str((read_document(str(next((folder / "runs").glob("*")) / "status.json")) or {}).get("status"))


def end(running: Running, folder: Path) -> None:
    (folder / "enough").touch()
    ended = running.wait()
    assert ended.status == 0, ended.err
    assert "the judge exited" not in ended.err
    assert "could not be made" not in ended.err


def test_the_report_exists_during_the_job_and_is_complete_after_it(tmp_path: Path) -> None:
    with started(
        ("--rule", "profiler_report"), script("reported.py"), str(tmp_path / "enough"), folder=tmp_path
    ) as job:
        wait_for(lambda: exists(tmp_path, "profiling.html"), "the report")
        assert status(tmp_path) == "InProgress"
        early = report_path(tmp_path, "profiling.html").read_text()
        assert " so far</dd>" in early
        assert "Step durations" in early
        wait_for(lambda: exists(tmp_path, "profiling.ipynb"), "the notebook")
        end(job, tmp_path)
    last = report_path(tmp_path, "profiling.html").read_text()
    assert " so far</dd>" not in last
    assert "<dd>Completed</dd>" in last
    for rule in ("cpu_bottleneck", "step_outlier", "max_initialization_time"):
        assert rule in last
    assert sorted(os.listdir(report_path(tmp_path, ""))) == ["profiling.html", "profiling.ipynb"]


def test_a_killed_renderer_affects_neither_job_nor_judge(tmp_path: Path) -> None:
    with started(
        ("--rule", "profiler_report"), script("reported.py"), str(tmp_path / "enough"), folder=tmp_path
    ) as job:
        rendering = job.process_of("leadline.reports")
        os.kill(rendering, signal.SIGKILL)
        before = job.flushed_steps()
        wait_for(lambda: job.flushed_steps() > before, "more steps")
        assert not exists(tmp_path, "profiling.html")
        end(job, tmp_path)
    assert "<dd>Completed</dd>" in report_path(tmp_path, "profiling.html").read_text()
