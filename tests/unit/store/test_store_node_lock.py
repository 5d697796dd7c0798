"""The lock of a node and its registered processes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.monitor.processes import identify
from leadline.store import node_lock


def test_a_lock_has_one_holder_and_ends_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    body = (
        "from leadline.store.node_lock import acquire_lock; "
        f"print(acquire_lock({path!r}) is not None, flush=True); input()"
    )
    holder = subprocess.Popen([sys.executable, "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    assert node_lock.acquire_lock(path) is None
    holder.kill()
    holder.communicate(timeout=60)
    lock = node_lock.acquire_lock(path)
    assert lock is not None
    node_lock.release_lock(lock, path)
    assert not os.path.exists(path)


def test_a_lock_whose_file_was_removed_is_acquired_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lock")
    flock, calls = fcntl.flock, []

    def removing(descriptor: int, operation: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            os.unlink(path)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removing)
    lock = node_lock.acquire_lock(path)
    assert lock is not None
    assert len(calls) == 2
    assert os.path.samestat(os.fstat(lock), os.stat(path))
    os.close(lock)


def test_without_lock_support_the_creator_of_the_file_holds_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = str(tmp_path / "lock")
    lock = node_lock.acquire_lock(path)
    assert lock is not None
    assert node_lock.acquire_lock(path) is None
    node_lock.release_lock(lock, path)
    again = node_lock.acquire_lock(path)
    assert again is not None
    os.close(again)


def test_registered_processes_have_pid_and_start_time(tmp_path: Path) -> None:
    node_lock.register_process(str(tmp_path), "node")
    assert node_lock.registered_processes(str(tmp_path), "node") == [identify(os.getpid())]
    assert node_lock.registered_processes(str(tmp_path), "other") == []
