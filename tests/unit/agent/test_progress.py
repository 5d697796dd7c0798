"""The terminal lines made from the documents of workers and judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.agent.progress import (
    Workers,
    describe_announcement,
    describe_disabled_capture,
    describe_dropped_data,
    describe_worker,
)
from leadline.store import layout
from leadline.store.documents import InPlaceDocument, write_document


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            {"models": [{"name": "Net", "parameters": 62}], "optimizers": ["AdamW"], "watching": "losses every step"},
            "watching Net (62 parameters, AdamW): losses every step",
        ),
        (
            {
                "models": [{"name": "G", "parameters": 1}, {"name": "D", "parameters": 2000}],
                "optimizers": ["Adam", "Adam"],
                "watching": "x",
            },
            "watching G and D (2,001 parameters, Adam): x",
        ),
        ({"models": [{"name": "Net", "parameters": 1}]}, "watching Net (1 parameter)"),
        ({"optimizers": ["SGD"], "watching": "losses"}, "watching the training (SGD): losses"),
        ({}, "watching the training"),
    ],
)
def test_what_is_captured_is_described(document: dict[str, object], said: str) -> None:
    assert describe_worker(document) == said


def test_announcements() -> None:
    finding = {"id": 1, "step": 1312, "rule": "exploding_tensor", "message": "loss is NaN", "action": None}
    assert describe_announcement(finding) == "step 1312  exploding_tensor: loss is NaN      leadline show"
    acting = finding | {"action": "stopping at step 1314"}
    assert describe_announcement(acting) == "step 1312  exploding_tensor: loss is NaN → stopping at step 1314"
    assert describe_announcement(finding | {"step": None}).startswith("exploding_tensor: ")
    failure = {"id": 2, "step": None, "rule": "stall_mail", "message": "notify:$MAIL failed: no", "kind": "failure"}
    assert describe_announcement(failure) == "stall_mail: notify:$MAIL failed: no"


def test_dropped_data_and_disabled_capture() -> None:
    lost = {"since_step": 7, "reason": "the disk is full", "rows": 1, "tensors": 2, "bytes": 9}
    assert (
        describe_dropped_data("rank0-1", lost) == "rank0-1: dropped 1 row and 2 tensors since step 7: the disk is full"
    )
    assert describe_dropped_data("w", {}) == "w: dropped captured data since step ?: unknown reason"
    assert describe_disabled_capture("w", {"step": 3, "error": "boom"}) == "w: capture disabled at step 3: boom"


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
    assert workers.documents == {"a": {"step": 2}, "b": {"step": 5}}
    document.close()


def test_a_document_that_is_being_rewritten_is_read_later(tmp_path: Path) -> None:
    (tmp_path / layout.WORKERS).mkdir()
    path = tmp_path / layout.worker_document("a")
    path.write_text('{"step": ')
    workers = Workers(str(tmp_path))
    assert workers.poll() == []
    path.write_text('{"step": 3}')
    assert workers.poll() == ["a"]
