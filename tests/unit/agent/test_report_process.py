"""The report at the end of a run: where there is one, and a process that nobody waits for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.agent import report_process
from leadline.agent.report_process import FinalReport
from leadline.agent.signals import SignalGate
from leadline.records.documents import WorkerDocument
from leadline.store.upload_state import UploadState, write_upload
from leadline.testing.runs import RunWriter

WORKER = WorkerDocument(steps={"train": 100})


@pytest.fixture(autouse=True)
def mask() -> Iterator[None]:
    """A gate blocks signals."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def report_of(
    run: str, choice: bool | None = None, gate: SignalGate | None = None, warn: Callable[[str], None] = pytest.fail
) -> FinalReport:
    environment = {**os.environ, "LEADLINE_REPORT": ""}
    return FinalReport(run, environment, gate or SignalGate(), warn=warn, choice=choice)


def test_a_run_of_a_minute_gets_one_in_its_directory(tmp_path: Path) -> None:
    run = RunWriter(tmp_path / "run").path
    assert report_of(run).plan(60.0, [WORKER]) == f"{run}/reports/report.html"
    assert report_of(run).plan(59.0, [WORKER]) is None
    assert report_of(run).plan(600.0, []) is None
    assert report_of(run, False).plan(600.0, [WORKER]) is None
    assert report_of(run, True).plan(1.0, []) is not None


def test_there_is_none_where_it_would_be_lost_or_cannot_be_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = RunWriter(tmp_path / "stored").path
    write_upload(stored, UploadState("s3://bucket/runs/stored"))
    assert report_of(stored, True).plan(60.0, [WORKER]) is None
    local = RunWriter(tmp_path / "local").path
    with monkeypatch.context() as patch:
        patch.setattr(report_process.os, "getpid", lambda: 1)  # the first process of a container
        assert report_of(local, True).plan(60.0, [WORKER]) is None
    monkeypatch.setattr(report_process, "find_spec", lambda name: None if name == "plotly" else object())
    assert report_of(local, True).plan(60.0, [WORKER]) is None


def test_nobody_waits_for_the_process_and_it_outlives_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take for ever here; ``start`` returns, and what ends the agent's session does not reach it."""
    monkeypatch.setattr(report_process, "report_command", lambda run: ["sleep", "1000"])
    gate = SignalGate()
    report = report_of(RunWriter(tmp_path / "run").path, True, gate)
    report.plan(1.0, [])
    report.start()
    (pid,) = gate.sessions
    try:
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
        assert os.getsid(pid) == os.getpgid(pid) == pid != os.getsid(0)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_without_a_plan_nothing_is_started(tmp_path: Path) -> None:
    gate = SignalGate()
    report = report_of(RunWriter(tmp_path / "run").path, False, gate)
    report.plan(600.0, [WORKER])
    report.start()
    assert not gate.sessions


def test_a_process_that_cannot_be_started_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_process, "report_command", lambda run: [str(tmp_path / "missing")])
    said: list[str] = []
    report = report_of(RunWriter(tmp_path / "run").path, True, warn=said.append)
    report.plan(1.0, [])
    report.start()
    assert said == ["the report is not rendered: No such file or directory; render it with: leadline report"]
