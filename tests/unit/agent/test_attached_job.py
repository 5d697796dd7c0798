"""Attached jobs: which processes the agent watches, and when it may leave."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.agent.job import AttachedJob, NodeRegistration
from leadline.monitor.processes import Identity, identify
from leadline.store import layout
from leadline.store.documents import append_line, make_folder
from leadline.store.node_lock import acquire_lock

NODE = "node"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def run(tmp_path: Path) -> str:
    make_folder(str(tmp_path / layout.NODES))
    return str(tmp_path)


def join(run: str, identity: Identity | None) -> None:
    assert identity is not None
    path = os.path.join(run, layout.node_processes(NODE))
    append_line(path, {"pid": identity[0], "start": identity[1]})


def attached(run: str, identity: Identity) -> AttachedJob:
    lock = acquire_lock(os.path.join(run, layout.node_lock(NODE)))
    return AttachedJob(identity, NodeRegistration(run, NODE, lock))


def is_locked(run: str) -> bool:
    lock = acquire_lock(os.path.join(run, layout.node_lock(NODE)))
    if lock is not None:
        os.close(lock)
    return lock is None


def test_a_single_process_ends_the_job() -> None:
    job = AttachedJob((2**22 + 1, 0))
    job.poll()
    assert job.has_ended


def test_registered_processes_are_watched_and_in_every_tree(run: str, sleeper: subprocess.Popen[bytes]) -> None:
    own = identify(os.getpid())
    assert own is not None
    job = attached(run, own)
    tree = job.new_tree()
    tree.rescan()
    join(run, identify(sleeper.pid))
    job.poll()
    assert job.pids == {os.getpid(), sleeper.pid}
    assert sleeper.pid in {each.pid for each in tree.rescan()}
    sleeper.kill()
    sleeper.wait()
    job.poll()
    assert (job.pids, job.has_ended) == ({os.getpid()}, False)


def test_the_lock_is_free_once_all_have_ended(run: str) -> None:
    job = attached(run, (2**22 + 1, 0))
    assert is_locked(run)
    job.poll()
    assert job.has_ended
    assert not is_locked(run)


def test_a_process_that_registers_at_the_last_moment_is_watched(
    run: str, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = attached(run, (2**22 + 1, 0))
    close = NodeRegistration.close

    def late(attendance: NodeRegistration) -> None:
        join(run, identify(sleeper.pid))
        close(attendance)

    monkeypatch.setattr(NodeRegistration, "close", late)
    job.poll()
    assert not job.has_ended
    assert job.pids == {sleeper.pid}
    assert is_locked(run)


def test_a_process_with_its_own_agent_is_left_to_it(
    run: str, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = attached(run, (2**22 + 1, 0))
    close, taken = NodeRegistration.close, []

    def late(attendance: NodeRegistration) -> None:
        close(attendance)
        join(run, identify(sleeper.pid))
        taken.append(acquire_lock(os.path.join(run, layout.node_lock(NODE))))

    monkeypatch.setattr(NodeRegistration, "close", late)
    job.poll()
    assert job.has_ended
    assert taken != [None]
    os.close(taken[0])
