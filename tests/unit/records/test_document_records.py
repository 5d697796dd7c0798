"""Documents decode whatever is on disk: of other versions, of writers that crashed, and damaged ones."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.records.decoding import Document
from leadline.records.documents import (
    Announcement,
    DisabledCapture,
    DroppedData,
    LoggedAction,
    ManifestDocument,
    NodeDocument,
    PhaseShare,
    RuleDocument,
    RuleSummary,
    RunStatus,
    SampledItem,
    SummarizedRule,
    TimeSummary,
    Transition,
    WatchedModel,
    WorkerDocument,
)
from leadline.records.manifest import ActionSpec, Manifest, RuleSpec
from leadline.records.notification import TensorSnapshot
from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.records.profile_window import ProfileWindow
from leadline.store.documents import encode
from leadline.store.run_state import read_rule_summary, read_status, read_workers

KINDS = (
    LoggedAction,
    ManifestDocument,
    NodeDocument,
    PhaseShare,
    RuleDocument,
    RuleSummary,
    RunStatus,
    SampledItem,
    WorkerDocument,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=5,
)


def test_a_document_is_read_as_it_was_written() -> None:
    worker = WorkerDocument(
        "rank0-1",
        "node",
        7,
        models=(WatchedModel("Net", 62),),
        steps={"train": 3},
        losses={"loss": 0.5, "bad": "NaN", "whole": 1},
        sampled=(SampledItem("gradients", statistics=("l2",), requested_every=50, requests=9, captures=4),),
        off=DisabledCapture(3, "boom"),
        facts={"batch_size": 4, "nested": [{"a": 1}]},
        lost=DroppedData(5, "full", rows=2),
    )
    assert WorkerDocument.from_dict(json.loads(encode(worker))) == worker
    time = TimeSummary((PhaseShare("data", 1.5, 0.5),), {"kind": "input", "try": "more workers"})
    assert RuleSummary.from_dict(json.loads(encode(RuleSummary(time=time)))).time == time
    summary = RuleSummary(announcements=(Announcement(1, 5, "a", "b"),), rules=(SummarizedRule("a", findings=1),))
    assert RuleSummary.from_dict(json.loads(encode(summary))) == summary


def test_infinite_losses_are_stored_by_name() -> None:
    document = json.loads(encode(WorkerDocument(losses={"loss": float("inf")})))
    assert WorkerDocument.from_dict(document).losses == {"loss": "Infinity"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, WorkerDocument()),
        (None, WorkerDocument()),
        ([3], WorkerDocument()),
        ({"novelty": 1, "step": 4}, WorkerDocument(step=4)),
        ({"step": "four", "worker": None, "steps": 3}, WorkerDocument()),
        ({"own_ns": None, "losses": None, "off": []}, WorkerDocument()),
        ({"models": [{"name": "Net", "novelty": 1}, 7]}, WorkerDocument(models=(WatchedModel("Net"),))),
        ({"steps": {"train": 5, "eval": "many"}}, WorkerDocument(steps={"train": 5})),
        ({"lost": {"rows": 3}}, WorkerDocument(lost=DroppedData(rows=3))),
        ({"lost": None}, WorkerDocument()),
    ],
)
def test_what_is_missing_or_of_another_type_takes_the_default(data: Any, expected: WorkerDocument) -> None:
    assert WorkerDocument.from_dict(data) == expected


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_value_of_any_field_fails(kind: type[Document], data: st.DataObject) -> None:
    names = st.sampled_from(sorted(kind.__dataclass_fields__))
    values = data.draw(st.dictionaries(names, JSON, max_size=4))
    assert isinstance(kind.from_dict(values), kind)


def test_a_manifest_is_read_as_it_was_written_and_keys_of_other_versions_are_ignored() -> None:
    schedule = Schedule(every=5, steps=(1, 2))
    manifest = Manifest(
        "run",
        "/runs/run",
        ("python", "train.py"),
        7,
        "0.1.0",
        plan=CapturePlan((CaptureItem("losses", statistics=("value",), schedule=schedule),), budget=0.02),
        rules=(RuleSpec("stall", "stalled_training", {"threshold": 60}),),
        actions=(ActionSpec("*", "notify", ("*",)),),
        profile=(ProfileWindow("cprofile", "cpu", step=9),),
        settings={"preset": "light"},
    )
    stored = json.loads(encode(manifest))
    assert Manifest.from_dict(stored) == manifest
    assert Manifest.from_dict(stored | {"novelty": 1}) == manifest
    old = stored | {"actions": [{"rule": "a", "action": "b", "status": "Error", "spoken": "b:c", "novelty": 1}]}
    assert Manifest.from_dict(old).actions == (ActionSpec("a", "b", ("Error",), display_name="b:c"),)


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"command": ["python", 3]},
        {"started_ns": "yesterday"},
        {"versions": {"torch": 2}},
        {"plan": []},
        {"plan": {"items": [{"collection": "losses", "schedule": {"every": "often"}}]}},
        {"rules": [{"alias": "a"}]},
        {"rules": "all"},
        {"profile": [{"kind": "perf"}]},
    ],
)
def test_a_manifest_with_a_part_that_is_invalid_is_none(change: dict[str, Any]) -> None:
    stored = {"name": "run", "uri": "/runs/run", "command": [], "started_ns": 7, "leadline": "0.1.0"}
    assert Manifest.from_dict(stored).name == "run"
    with pytest.raises(TypeError):
        Manifest.from_dict(stored | change)


def test_statistics_that_json_cannot_represent_are_numbers_again() -> None:
    statistics = {"max": math.inf, "min": -math.inf, "mean": 0.5}
    snapshot = TensorSnapshot("loss", (), "float32", statistics, (math.nan, 1.0))
    (value, other) = TensorSnapshot.from_dict(json.loads(encode(snapshot))).values or ()
    assert math.isnan(value)
    assert other == 1.0
    assert TensorSnapshot.from_dict(json.loads(encode(snapshot))).statistics == statistics
    with pytest.raises(TypeError, match="invalid statistics"):
        TensorSnapshot.from_dict({"name": "loss", "statistics": {"max": "high"}})


def test_missing_torn_and_foreign_documents_of_a_run(tmp_path: Path) -> None:
    run = str(tmp_path)
    assert (read_status(run), read_workers(run), read_rule_summary(run)) == (RunStatus(), {}, None)
    (tmp_path / "rules").mkdir()
    (tmp_path / "workers").mkdir()
    for text in ('{"status":"Comp', "[]", "5"):
        (tmp_path / "status.json").write_text(text)
        (tmp_path / "workers" / "rank0-1.json").write_text(text)
        (tmp_path / "rules" / "summary.json").write_text(text)
        assert (read_status(run), read_workers(run), read_rule_summary(run)) == (RunStatus(), {}, None)
    (tmp_path / "status.json").write_text('{"status":"Failed","transitions":[{"status":"Failed","time_ns":7}, 8]}')
    assert read_status(run) == RunStatus("Failed", (Transition("Failed", 7),))
