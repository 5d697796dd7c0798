"""Which workers were started again by torchrun: its count of restarts, or earlier workers of the same parent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from leadline.records.incarnations import Incarnation, Incarnations
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.store.node_lock import node_name
from leadline.training.session import restarted
from leadline.training.session.restarted import await_incarnation

DEAD = 2**22 + 1
"""A pid that no process has."""
EARLIER = {"worker": "rank0-1", "node": node_name(), "pid": DEAD, "parent_pid": os.getppid()}


@pytest.mark.parametrize(
    ("count", "worker", "begun"),
    [
        ("0", None, None),
        ("1", None, 1),
        ("0", EARLIER, 1),  # after another node has failed, this one's count stays
        ("2", EARLIER, 2),
        ("0", EARLIER | {"pid": os.getpid()}, None),  # a rank of the same group
        ("0", EARLIER | {"parent_pid": 1}, None),  # of another torchrun before
        ("0", EARLIER | {"node": "other"}, None),
        ("0", EARLIER | {"starts": [{"number": 1}]}, None),  # of another incarnation than the last
    ],
)
def test_restarted_workers_begin_an_incarnation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: str, worker: dict[str, Any] | None, begun: int | None
) -> None:
    started: list[int] = []
    monkeypatch.setattr(restarted, "_begin", lambda run, restarts: started.append(restarts))
    for name, value in {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": count, "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / layout.WORKERS).mkdir()
    if worker is not None:
        write_document(str(tmp_path / layout.worker_document("rank0-1")), worker)
    await_incarnation(str(tmp_path))
    assert started == ([] if begun is None else [begun])
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    await_incarnation(str(tmp_path))
    assert len(started) == (begun is not None)


def test_a_restart_that_another_node_has_begun_is_not_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(restarted, "_begin", lambda run, restarts: started.append(restarts))
    for name, value in {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / layout.WORKERS).mkdir()
    write_document(str(tmp_path / layout.worker_document("rank0-1")), EARLIER)
    write_document(str(tmp_path / layout.INCARNATIONS), Incarnations((Incarnation(1, restarts=1),)))
    await_incarnation(str(tmp_path))
    assert started == []
