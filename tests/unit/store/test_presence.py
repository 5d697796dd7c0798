"""The node's lock and the processes that joined."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.monitor.processes import identify
from leadline.store import presence


def test_one_holds_a_lock_and_it_ends_with_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    body = f"from leadline.store.presence import take_lock; print(take_lock({path!r}) is not None, flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    assert presence.take_lock(path) is None
    holder.kill()
    holder.communicate(timeout=60)
    lock = presence.take_lock(path)
    assert lock is not None
    presence.give_lock_back(lock, path)
    assert not os.path.exists(path)


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lock")
    flock, calls = fcntl.flock, []

    def removing(descriptor: int, operation: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            os.unlink(path)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removing)
    lock = presence.take_lock(path)
    assert lock is not None
    assert len(calls) == 2
    assert os.path.samestat(os.fstat(lock), os.stat(path))
    os.close(lock)


def test_without_locks_who_makes_the_file_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = str(tmp_path / "lock")
    lock = presence.take_lock(path)
    assert lock is not None
    assert presence.take_lock(path) is None
    presence.give_lock_back(lock, path)
    again = presence.take_lock(path)
    assert again is not None
    os.close(again)


def test_who_joined_is_known_by_pid_and_start(tmp_path: Path) -> None:
    presence.register_process(str(tmp_path), "node")
    assert presence.registered_processes(str(tmp_path), "node") == [identify(os.getpid())]
    assert presence.registered_processes(str(tmp_path), "other") == []
