"""Breakdown of an interval, compared with the run as written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from timelines import merge_by_time, training

from leadline.analysis.digest import Digest
from leadline.dashboard.pages.selection import breakdown
from leadline.reader.run import Run
from leadline.records.event import Event
from leadline.store import layout
from leadline.store.documents import make_folder
from leadline.testing.runs import SECOND_NS, START_NS, DetailedProfile, RunWriter, TimelineEvent

PHASES = {"data": 25.0, "forward": 25.0, "backward": 50.0}


@pytest.fixture
def client(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> TestClient:
    """A run of a hundred steps of a tenth of a second, with a window, a finding and a checkpoint."""
    steps = training([PHASES] * 100)
    saved = TimelineEvent(Event("saved_by_hand", 30, START_NS + 3 * SECOND_NS, SECOND_NS // 2))
    window = DetailedProfile("w1", 50, START_NS + 5 * SECOND_NS, [("aten::mm", 0.0, 40.0), ("aten::add", 50.0, 10.0)])
    writer = RunWriter(tmp_path / "first").write_all(merge_by_time(steps, [saved], [window])).end()
    path = os.path.join(writer.path, layout.rule_findings("loss_spike"))
    make_folder(os.path.dirname(path))
    found = {
        "event": "opened",
        "id": 1,
        "rule": "loss_spike",
        "step": 20,
        "last_step": 20,
        "is_open": False,
        "time_ns": START_NS + 2 * SECOND_NS,
        "message": "it jumped",
        "suggestion": "",
        "tensors": [],
        "tensor_count": 0,
        "worker": None,
        "evidence": {},
        "count": 1,
    }
    Path(path).write_text(json.dumps(found) + "\n")
    return open_dashboard(tmp_path)


@pytest.fixture
def run(client: TestClient, tmp_path: Path) -> Run:
    return Run(str(tmp_path / "first"))


def chosen(run: Run, start: float, end: float) -> dict[str, Any]:
    bounds = (START_NS + round(start * SECOND_NS), START_NS + round(end * SECOND_NS))
    return breakdown(run, Digest(run), *bounds, "first")


def test_phases_of_an_interval_match_its_steps(run: Run) -> None:
    found = chosen(run, 1.0, 3.0)
    shares = {each["label"]: each["share"] for each in found["phases"]}
    assert shares == pytest.approx({"backward": 0.5, "data loading": 0.25, "forward": 0.25}, abs=1e-3)
    assert [each["time"] for each in found["phases"]] == ["1.0 s", "500 ms", "500 ms"]
    assert found["phases"][0]["label"] == "backward"
    assert found["steps"].startswith("20 training steps (mean 100 ms")


def test_only_findings_and_operators_in_the_interval_are_listed(run: Run) -> None:
    early, late = chosen(run, 1.0, 3.2), chosen(run, 4.0, 6.0)
    assert [each["label"] for each in early["findings"]] == ["loss_spike, step 20: it jumped"]
    assert early["findings"][0]["href"] == "/runs/first/overview#rule-loss_spike"
    assert early["events"] == [{"label": "saved by hand (500 ms), rank0-1"}]
    assert early["operators"] is None
    assert late["findings"] == late["events"] == []
    rows = late["operators"]["rows"]
    assert [(each["operator"], each["time"], each["calls"]) for each in rows] == [
        ("aten::mm", "40 ms", "1"),
        ("aten::add", "10 ms", "1"),
    ]


def test_an_interval_without_steps_shows_a_message(run: Run) -> None:
    found = chosen(run, 20.0, 30.0)
    assert found["phases"] == []
    assert found["steps"] == "no step ran in this interval"


def test_the_page_shows_the_same_breakdown_and_escapes_it(client: TestClient, tmp_path: Path) -> None:
    query = {"start_ns": START_NS + SECOND_NS, "end_ns": START_NS + 6 * SECOND_NS}
    text = client.get("/runs/first/selection", params=query).text
    for words in ("50 training steps (mean 100 ms", "aten::mm", "loss_spike, step 20: it jumped", "saved by hand"):
        assert words in text
    assert "width: 80px" in text  # half of the time is backward
    findings = Path(tmp_path / "first" / layout.rule_findings("loss_spike"))
    findings.write_text(findings.read_text().replace("it jumped", "<img src=x>"))
    text = client.get("/runs/first/selection", params=query).text
    assert "&lt;img src=x&gt;" in text
    assert "<img" not in text


@pytest.mark.parametrize("query", ["", "start_ns=5", "start_ns=9&end_ns=5", "start_ns=a&end_ns=b"])
def test_invalid_intervals_are_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/runs/first/selection?{query}").status_code == 400


def test_the_span_of_the_run_is_returned(client: TestClient) -> None:
    found = client.get("/runs/first/span.json").json()
    assert found == {"start_ns": START_NS, "end_ns": START_NS + 3600 * SECOND_NS, "status": "Completed"}
    assert client.get("/runs/none/span.json").status_code == 404
