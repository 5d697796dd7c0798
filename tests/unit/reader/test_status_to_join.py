"""A process that joins a run tells one that continues from one that was killed, though clocks differ by hours."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from leadline.reader import liveness
from leadline.store import layout
from leadline.store.node_lock import node_name
from leadline.testing.runs import Capture, RunWriter


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run of another node whose clock is hours behind."""
    monkeypatch.setattr(liveness, "SIGN_SECONDS", 0.5)
    writer = RunWriter(tmp_path / "run")
    writer.write(Capture(0, {"loss": {"value": 1.0}}))
    writer.write_node("other")
    writer.set_status("InProgress", agent_pid=1, node="other")
    Path(writer.path, layout.node_sign("other")).touch()
    for path in Path(writer.path).rglob("*"):
        os.utime(path, ns=(10**18, 10**18))
    return str(writer.path)


def test_a_run_that_gives_signs_goes_on(run: str) -> None:
    assert liveness.effective_status(run) == "Interrupted", "as the clocks have it"
    sign = os.path.join(run, layout.node_sign("other"))
    timer = threading.Timer(0.3, lambda: os.utime(sign, ns=(10**18 + 1, 10**18 + 1)))
    timer.start()
    assert liveness.status_to_join(run) == "InProgress"
    timer.join()


def test_a_run_without_signs_was_interrupted(run: str) -> None:
    assert liveness.status_to_join(run) == "Interrupted"


def test_a_run_of_this_node_is_known_without_waiting(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_NODE_NAME", "other")
    assert node_name() == "other"
    monkeypatch.setattr(liveness, "_gives_signs", lambda run: pytest.fail("it was watched"))
    assert liveness.status_to_join(run) == liveness.effective_status(run)


def test_processes_of_this_node_say_nothing_about_a_mirror(tmp_path: Path) -> None:
    """The agent may have written its end, and ended, before the store or the mirror has the status."""
    writer = RunWriter(tmp_path / "run")
    no_process = 2**22 + 1
    writer.set_status("InProgress", agent_pid=no_process, job_pid=no_process, node=node_name())
    assert liveness.effective_status(str(writer.path)) == "Interrupted"
    Path(writer.path, layout.MIRROR).touch()
    assert liveness.effective_status(str(writer.path)) == "InProgress"
