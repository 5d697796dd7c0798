"""Overview page of a full, an empty and a malicious run, and its charts."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import malicious_inputs
import page_runs
import pytest
from starlette.testclient import TestClient
from timelines import CPU, gpu, merge_by_time, sampled, training

from leadline.analysis.digest import Digest
from leadline.analysis.job import JobPhases
from leadline.dashboard.number_format import phase_label
from leadline.dashboard.pages.overview import (
    counts_without_findings,
    job_parts,
    operations,
    rule_groups,
    usage_rows,
    warnings,
)
from leadline.dashboard.rule_view import rule_views
from leadline.judge.judged_log import write_judged_run
from leadline.logs.find import read_log
from leadline.reader.run import Run
from leadline.records.incarnations import Incarnation, Incarnations, WorkerStart
from leadline.records.manifest import RuleSpec
from leadline.records.metric import Channel
from leadline.records.series import TensorInfo
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.store.upload_state import UploadState, write_upload
from leadline.testing.runs import SECOND_NS, START_NS, Capture, DetailedProfile, RunWriter

HOSTILE = "<script>alert(1)</script>"
Open = Callable[..., TestClient]


def text(client: TestClient, address: str) -> str:
    answer = client.get(address, headers={"accept": "text/html"})
    assert answer.status_code == 200, answer.text
    return answer.text


def figure(client: TestClient, address: str) -> dict[str, Any]:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def run(tmp_path: Path) -> RunWriter:
    steps = training([{"data": 30.0, "forward": 5.0, "backward": 10.0}] * 40)
    machine = sampled({CPU: [50.0] * 9 + [90.0], gpu(0): [10.0] * 10})
    window = DetailedProfile("w1", 3, START_NS + SECOND_NS, [("aten::mm", 0.0, 40.0), ("aten::add", 50.0, 10.0)])
    return RunWriter(tmp_path / "first").write_all(merge_by_time(steps, machine, [window])).end()


def test_overview_shows_duration_bottleneck_and_operators(run: RunWriter, tmp_path: Path, open_dashboard: Open) -> None:
    client = open_dashboard(tmp_path)
    page = text(client, "/runs/first/overview")
    for words in (
        "1 h 0 m",
        "Bottleneck: input",
        "67 % of the step time is waiting for data",
        "reading the next batches",
        "aten::mm",
        "GPU 0",
        "Monitoring overhead",
        "No rules are evaluated in this run",
        "80 %",
    ):
        assert words in page, words
    assert "No GPU was sampled" not in page
    heads = re.findall(r"<th([^>]*)>([^<]*)</th>", page[page.index('id="usage-table"') :].partition("</thead>")[0])
    assert [head for attributes, head in heads if "minor" not in attributes] == ["Metric", "Unit", "p50", "max"]
    assert page == text(client, "/runs/first")


def test_an_overloaded_machine_is_noted_beside_the_step_phases(tmp_path: Path, open_dashboard: Open) -> None:
    phases = {"forward": 60.0, "backward": 40.0}
    busy = training([phases] * 40, cpu_ms={"forward": 5.0}, delayed_ms={"forward": 50.0, "backward": 30.0})
    RunWriter(tmp_path / "busy").write_all(busy).end()
    RunWriter(tmp_path / "idle").write_all(training([phases] * 40)).end()
    client = open_dashboard(tmp_path)
    message = "The machine was overloaded: the training&#39;s thread waited for a CPU in 80 % of the time"
    assert text(client, "/runs/busy").count(message) == 1
    assert "overloaded" not in text(client, "/runs/idle")


def test_a_run_without_steps_shows_messages(tmp_path: Path, open_dashboard: Open) -> None:
    RunWriter(tmp_path / "first").write_all([])
    client = open_dashboard(tmp_path)
    page = text(client, "/runs/first/overview")
    for words in ("No step was timed", "No system metrics were recorded", "No operators were recorded", "none"):
        assert words in page, words
    assert "Bottleneck" not in page
    for chart in ("job", "step_phases", "progress", "scalar"):
        assert figure(client, f"/runs/first/charts/{chart}.json")["layout"]["meta"]["empty"]


def test_the_overview_of_a_log_has_only_what_a_log_holds(tmp_path: Path, open_dashboard: Open) -> None:
    log = tmp_path / "trainer_state.json"
    rows = [{"step": step, "loss": 1.0 / step, "epoch": step / 10} for step in range(1, 20)]
    log.write_text(json.dumps({"log_history": rows, "global_step": 19}))
    write_judged_run(read_log(str(log)), str(tmp_path / "runs" / "log"), source=str(log))
    page = text(open_dashboard(tmp_path / "runs"), "/runs/log/overview")
    assert "Diagnosed" in page
    assert "Not available in a log" in page
    for words in (
        "Duration",
        "Training loop",
        "Job phases",
        "Step phases",
        "Monitoring overhead",
        'data-chart="progress"',
    ):
        assert words not in page, words


def test_malicious_names_are_text(tmp_path: Path, open_dashboard: Open) -> None:
    writer = RunWriter(tmp_path / "first", rules=(RuleSpec(HOSTILE, "vanishing_gradient"),))
    told = {
        "name": HOSTILE,
        "rule": HOSTILE,
        "status": "IssuesFound",
        "verdict": "fired",
        "why": HOSTILE,
        "explained_by": HOSTILE,
    }
    write_document(os.path.join(writer.path, layout.RULE_SUMMARY), {"rules": [told]})
    writer.write_all([Capture(0, {f"{HOSTILE}loss": {"value": 1.0}}, worker="rank0-1")])
    writer.write_worker("rank0-1", notes=[HOSTILE], models=[{"name": HOSTILE, "parameters": 1}], optimizers=[HOSTILE])
    with open(os.path.join(writer.path, layout.ACTIONS), "w", encoding="utf-8") as file:
        said = {"rule": HOSTILE, "action": HOSTILE, "outcome": HOSTILE, "state": "done", "time_ns": START_NS, "step": 1}
        file.write(json.dumps(said) + "\n")
    client = open_dashboard(tmp_path)
    page = text(client, "/runs/first/overview")
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    chart = figure(client, f"/runs/first/charts/scalar.json?name={HOSTILE}loss")
    assert chart["layout"]["title"]["text"] == "&lt;script&gt;alert(1)&lt;/script&gt;loss"


def test_the_loss_is_drawn_by_mode_with_the_findings(tmp_path: Path, open_dashboard: Open) -> None:
    parts = [
        Capture(step, {"loss": {"value": float(step)}}, mode="train" if step % 4 else "eval") for step in range(40)
    ]
    writer = RunWriter(tmp_path / "first").write_all(parts)
    path = os.path.join(writer.path, layout.rule_findings("loss_spike"))
    make_folder(os.path.dirname(path))
    found = {
        "event": "opened",
        "id": 1,
        "rule": "loss_spike",
        "step": 7,
        "last_step": 7,
        "is_open": False,
        "time_ns": START_NS,
        "message": "m",
        "suggestion": "",
        "tensors": ["loss"],
        "tensor_count": 0,
        "worker": None,
        "evidence": {},
        "count": 1,
    }
    Path(path).write_text(json.dumps(found) + "\n")
    chart = figure(open_dashboard(tmp_path), "/runs/first/charts/scalar.json?name=loss&start_step=5&end_step=15")
    assert {"train", "eval"} <= {each.get("name") for each in chart["data"]}
    assert [each["x0"] for each in chart["layout"]["shapes"]] == [7]


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_loss_that_is_also_logged_is_drawn_once(tmp_path: Path, open_dashboard: Open, mode: str) -> None:
    """The trainer's loss of the validation is another one, unless the evaluation was captured."""
    kinds = {"Loss_output_0": "losses", "loss": "metrics", "eval_loss": "metrics", "kl_loss": "metrics"}
    infos = {name: TensorInfo(name, (kind,), ()) for name, kind in kinds.items()}
    parts = [Capture(step, {name: {"value": 1.0} for name in kinds}, infos=infos) for step in range(3)]
    parts += [Capture(step, {"Loss_output_0": {"value": 1.0}}, mode=mode, infos=infos) for step in range(3, 6)]
    RunWriter(tmp_path / "run").write_all(parts)
    client = open_dashboard(tmp_path)
    drawn = re.findall(r'id="chart-loss-([^"]*)"', text(client, "/runs/run/overview"))
    assert drawn == ["Loss_output_0", *(["loss"] if mode == "train" else []), "kl_loss"]
    titles = {name: figure(client, f"/runs/run/charts/metric.json?name={name}")["layout"]["title"] for name in kinds}
    assert {name: title["text"] for name, title in titles.items()} == {
        "Loss_output_0": "loss (Loss)",
        "loss": "loss (logged)",
        "eval_loss": "loss (logged)",
        "kl_loss": "kl_loss",
    }


def test_job_phases_add_up() -> None:
    job = JobPhases(
        0, 100 * SECOND_NS, 20 * SECOND_NS, 90 * SECOND_NS, {"imports": 8.0, "setup": 7.0, "first_step": 3.0}
    )
    parts = job_parts(job)
    assert [(each.name, each.seconds) for each in parts if not each.is_inner] == [
        ("initialization", 20.0),
        ("training_loop", 70.0),
        ("finalization", 10.0),
    ]
    assert sum(each.share or 0 for each in parts if not each.is_inner) == pytest.approx(1.0)
    inner = [each.seconds for each in parts[:4] if each.is_inner]
    assert sum(inner) == pytest.approx(20.0)
    assert job_parts(JobPhases(0, SECOND_NS, None, None, {})) == []


def test_usage_has_units_and_natural_order() -> None:
    values = {"min": 0.0, "p50": 5e8, "p90": 1e9, "p95": 1e9, "p99": 1e9, "max": 1e9}
    rows = [
        {"node": "n", "kind": "process", "device": "job", "metric": "rss_bytes", "samples": 3, **values},
        *(
            {
                "node": "n",
                "kind": "gpu",
                "device": f"gpu{each}",
                "metric": "utilization_percent",
                "samples": 1,
                **values,
            }
            for each in (10, 2)
        ),
        {"node": "n", "kind": "cpu", "device": "total", "metric": "utilization_percent", "samples": 1, **values},
    ]
    found = usage_rows(rows)
    assert [each.metric for each in found] == ["CPU", "GPU 2", "GPU 10", "job memory (RSS)"]
    assert (found[-1].unit, found[-1].values) == ("GB", (0.0, 0.5, 1.0, 1.0, 1.0, 1.0))
    assert {row.total_bytes for row in found} == {None}


def test_the_network_has_a_total_in_bytes(tmp_path: Path, open_dashboard: Callable[..., TestClient]) -> None:
    received = Channel("network", "total", "received_bytes_per_second")
    parts = [part for node in ("a", "b") for part in sampled({received: [3e6] * 4}, every_ms=500.0, node=node)]
    RunWriter(tmp_path / "first").write_all(sorted(parts, key=lambda part: part.time_ns)).end()
    page = open_dashboard(tmp_path).get("/runs/first/overview").text
    table = page.partition('id="usage-table"')[2].partition("</table>")[0]
    assert [row.count(">6.0 MB<") for row in table.split("<tr>")[2:]] == [0, 1, 1]
    assert table.count(">12 MB<") == 1


def test_rules_with_findings_are_listed_first(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "first", rules=tuple(RuleSpec(each, each) for each in ("overfit", "dead_relu")))
    rules = [
        {"name": "overfit", "rule": "overfit", "status": "NoIssuesFound", "verdict": "undecided", "why": "no data"},
        {"name": "dead_relu", "rule": "dead_relu", "status": "Error", "verdict": "clear", "why": "it raised"},
    ]
    write_document(os.path.join(writer.path, layout.RULE_SUMMARY), {"rules": rules})
    views = rule_views(Run(writer.path))
    groups = rule_groups(views)
    assert [each.alias for each, _ in groups["with_findings"]] == ["dead_relu"]
    assert [each.alias for each, _ in groups["without_findings"]] == ["overfit"]
    (undecided,) = [view for view, _ in groups["without_findings"]]
    assert counts_without_findings([undecided, replace(undecided, verdict="clear")]) == "1 rule clear, 1 undecided"


def test_dropped_data_is_shown_as_a_warning(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "first").write_all([Capture(0, {"loss": {"value": 1.0}})])
    writer.write_worker(
        "rank0-1",
        lost={"since_step": 1200, "reason": "the disk is full"},
        off={"step": 9, "error": "boom"},
        notes=["n"],
    )
    found = warnings(Run(writer.path))
    assert any("since step 1,200: the disk is full" in each for each in found)
    assert any("capture ended at step 9: boom" in each for each in found)
    assert "rank0-1: n" in found


def test_without_a_detailed_window_there_are_no_operations(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "first").write_all([])
    assert operations(Run(writer.path)) == {}


def test_phases_have_labels() -> None:
    assert phase_label("data") == "data loading"
    assert phase_label("my_own_mark") == "my own mark"


def test_several_nodes_are_shown_together_and_separately(tmp_path: Path, open_dashboard: Open) -> None:
    nodes = [sampled({CPU: [value] * 10}, node=f"n{value:.0f}") for value in (20.0, 60.0)]
    RunWriter(tmp_path / "first").write_all(merge_by_time(*nodes)).end()
    page = text(open_dashboard(tmp_path), "/runs/first/overview")
    told = page[page.index('id="usage-table"') :]
    assert told.index("all nodes") < told.index("n20") < told.index("n60")
    assert 'data-value="40.0"' in told  # the median of both


@pytest.mark.parametrize(
    ("status", "exit_status", "words"),
    [("Failed", 3, "with exit status 3"), ("Interrupted", None, "ended without a final status")],
)
def test_a_failed_or_interrupted_job_says_so_first(
    tmp_path: Path, open_dashboard: Open, status: str, exit_status: int | None, words: str
) -> None:
    writer = RunWriter(tmp_path / "first").write_all([])
    writer.set_status(status, exit_status=exit_status, ended_ns=START_NS + SECOND_NS)
    assert words in text(open_dashboard(tmp_path), "/runs/first/overview")


def test_a_run_being_compacted_shows_its_progress(
    run: RunWriter, tmp_path: Path, open_dashboard: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_dashboard(tmp_path)
    assert "data-compacting" not in text(client, "/runs/first/overview")
    monkeypatch.setattr(Digest, "progress", property(lambda self: 0.42))
    for page in ("overview", "nodes"):
        told = text(client, f"/runs/first/{page}")
        assert "data-compacting" in told
        assert "the page shows 42 % of it so far" in told


def test_interruptions_and_the_upload_are_shown(open_dashboard: Open, tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run").write_all([Capture(step, {"loss": {"value": 0.5}}) for step in range(9)])
    start = WorkerStart(1, 6, {"train": 6}, series=1 << 40)
    writer.end()
    writer.write_worker("rank0-1", starts=(start,), state="ended")
    ended = Incarnation(1, started_ns=START_NS + 90 * SECOND_NS, ended_ns=START_NS + 30 * SECOND_NS, steps=9)
    write_document(str(tmp_path / "run" / layout.INCARNATIONS), Incarnations((ended,)))
    write_upload(writer.path, UploadState("s3://bucket/run", pending_files=3, pending_bytes=2_000_000))
    page = html.unescape(text(open_dashboard(tmp_path), "/runs/run/overview"))
    assert "Interrupted at step 8; resumed at step 6 after 1 m 0 s" in page
    assert "s3://bucket/run: 3 files (2.0 MB) not uploaded for" in page


def test_a_scalar_that_a_finding_is_about_is_drawn_beside_the_first_loss(tmp_path: Path, open_dashboard: Open) -> None:
    kinds = {"loss": "losses", "second_loss": "losses", "accuracy": "metrics", "other": "scalars", "reward": "scalars"}
    infos = {name: TensorInfo(name, (kind,), ()) for name, kind in kinds.items()}
    infos["learning_rate"] = TensorInfo("learning_rate", ("metrics", "role:learning_rate"), ())
    infos |= {name: TensorInfo(name, ("metrics",), ()) for name in ("epoch", "eval_runtime", "eval_steps_per_second")}
    captures = [Capture(step, {name: {"value": 1.0} for name in infos}, infos=infos) for step in range(3)]
    RunWriter(tmp_path / "run").write_all(captures)
    client = open_dashboard(tmp_path)

    def charts() -> list[str]:
        return re.findall(r'id="chart-loss-([^"]*)"', text(client, "/runs/run/overview"))

    assert charts() == ["loss", "second_loss", "accuracy", "learning_rate"]
    found = page_runs.finding("fall", "it fell", ("reward", "accuracy"))
    malicious_inputs.write_rule(str(tmp_path / "run"), "fall", verdict="fired", findings=[found])
    client = open_dashboard(tmp_path)
    assert charts() == ["loss", "reward", "second_loss", "accuracy"]
