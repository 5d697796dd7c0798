"""The lock of a node's agent, also on file systems without locks, where only its file tells that it is held."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from leadline.agent.__main__ import _is_abandoned
from leadline.records.documents import NodeDocument
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.store.node_lock import acquire_lock, break_lock, release_lock


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    path = str(tmp_path / "node.lock")
    held = acquire_lock(path)
    assert held is not None
    assert acquire_lock(path) is None
    break_lock(path)
    assert acquire_lock(path) is None, "its holder lives"
    release_lock(held, path)
    assert os.listdir(tmp_path) == []


def test_without_locks_the_file_is_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = str(tmp_path / "node.lock")
    assert acquire_lock(path) is not None
    assert acquire_lock(path) is None
    break_lock(path)
    again = acquire_lock(path)
    assert again is not None
    release_lock(again, path)
    assert os.listdir(tmp_path) == []


def test_a_node_is_abandoned_when_its_agent_is_gone(tmp_path: Path) -> None:
    make_folder(str(tmp_path / layout.NODES))
    assert not _is_abandoned(str(tmp_path), "a"), "its agent may just be starting"
    document = str(tmp_path / layout.node_document("a"))
    write_document(document, NodeDocument("a", agent_pid=os.getpid()))
    assert not _is_abandoned(str(tmp_path), "a")
    gone = subprocess.Popen(["true"])
    gone.wait()
    write_document(document, NodeDocument("a", agent_pid=gone.pid))
    assert _is_abandoned(str(tmp_path), "a")
