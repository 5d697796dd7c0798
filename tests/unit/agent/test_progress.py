"""The documents of workers are read when they change."""

from __future__ import annotations

from pathlib import Path

from leadline.agent.progress import Workers
from leadline.records.documents import WorkerDocument
from leadline.store import layout
from leadline.store.documents import InPlaceDocument, write_document


def test_workers_are_read_when_they_change(tmp_path: Path) -> None:
    workers = Workers(str(tmp_path))
    assert workers.poll() == []
    (tmp_path / layout.WORKERS).mkdir()
    document = InPlaceDocument(str(tmp_path / layout.worker_document("a")), {"step": 1})
    assert workers.poll() == ["a"]
    assert workers.poll() == []
    document.write({"step": 2})
    write_document(str(tmp_path / layout.worker_document("b")), {"step": 5})
    assert sorted(workers.poll()) == ["a", "b"]
    assert workers.documents == {"a": WorkerDocument(step=2), "b": WorkerDocument(step=5)}
    document.close()


def test_a_document_that_is_being_rewritten_is_read_later(tmp_path: Path) -> None:
    (tmp_path / layout.WORKERS).mkdir()
    path = tmp_path / layout.worker_document("a")
    path.write_text('{"step": ')
    workers = Workers(str(tmp_path))
    assert workers.poll() == []
    path.write_text('{"step": 3}')
    assert workers.poll() == ["a"]
