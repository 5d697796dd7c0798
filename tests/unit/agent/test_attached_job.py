"""Which processes an agent watches that started none of them, and when it may leave."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.agent.job import AttachedJob, Attendance
from leadline.monitor.processes import Identity, identify
from leadline.store import layout
from leadline.store.documents import append_line, make_folder
from leadline.store.presence import take_lock

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
    lock = take_lock(os.path.join(run, layout.node_lock(NODE)))
    return AttachedJob(identity, Attendance(run, NODE, lock))


def is_locked(run: str) -> bool:
    lock = take_lock(os.path.join(run, layout.node_lock(NODE)))
    if lock is not None:
        os.close(lock)
    return lock is None


def test_one_process_alone_is_over_with_its_end() -> None:
    job = AttachedJob((2**22 + 1, 0))
    job.poll()
    assert job.has_ended


def test_who_joins_is_watched_and_in_every_tree(run: str, sleeper: subprocess.Popen[bytes]) -> None:
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


def test_who_joined_under_the_lock_at_the_last_moment_is_not_left(
    run: str, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = attached(run, (2**22 + 1, 0))
    close = Attendance.close

    def late(attendance: Attendance) -> None:
        join(run, identify(sleeper.pid))
        close(attendance)

    monkeypatch.setattr(Attendance, "close", late)
    job.poll()
    assert not job.has_ended
    assert job.pids == {sleeper.pid}
    assert is_locked(run)


def test_who_starts_an_agent_of_its_own_is_left_to_it(
    run: str, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = attached(run, (2**22 + 1, 0))
    close, taken = Attendance.close, []

    def late(attendance: Attendance) -> None:
        close(attendance)
        join(run, identify(sleeper.pid))
        taken.append(take_lock(os.path.join(run, layout.node_lock(NODE))))

    monkeypatch.setattr(Attendance, "close", late)
    job.poll()
    assert job.has_ended
    assert taken != [None]
    os.close(taken[0])
