"""Runs opened for reading: lookup, tensors, tables, and the errors "not yet" and "not captured"."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from generated_runs import float_tensors

import leadline
from leadline.errors import ConfigurationError, DamagedRunError, NotCapturedError, NotYetError, RunNotFoundError
from leadline.reader.find_runs import list_runs
from leadline.reader.summary import DAMAGED
from leadline.records.event import Event
from leadline.store import layout
from leadline.testing.runs import START_NS, Capture, Part, RawTensors, RunWriter, SystemSample, TimelineEvent

GRADIENT = "gradient/a.weight"


def parts() -> list[Part]:
    run_parts: list[Part] = []
    for step in range(6):
        mode = "eval" if step == 4 else "train"
        if step == 2:
            run_parts.append(float_tensors(step, {"a.weight": [1.0, -3.0]}))
        run_parts.append(
            Capture(step, {"loss": {"value": 1.0 / (step + 1)}}, mode=mode, mode_step=0 if step == 4 else step)
        )
        if step % 2 == 0:
            run_parts.append(Capture(step, {GRADIENT: {"abs_mean": 0.1 * step}}))
        run_parts.append(SystemSample(START_NS + step * 10**8, 10.0 * step))
    run_parts.append(TimelineEvent(Event("forward", 3, START_NS, 5, "train", 1, {"a": 1})))
    return run_parts


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter(tmp_path / "runs" / "first", batch_rows=2)


def test_names_that_cannot_be_encoded_are_escaped(writer: RunWriter) -> None:
    name, tensor = "loss\ud800", {"weight\ud800": [1.0]}
    run = leadline.open_run(writer.write_all([Capture(0, {name: {"value": 2.0}}), float_tensors(0, tensor)]).end().path)
    assert run.tensor_names() == ["loss\\ud800", "weight\\ud800"]
    assert float(run.tensor("loss\\ud800").value(0)) == 2.0
    assert run.scalars()["name"].to_pylist() == ["loss\\ud800"]


def test_names_steps_modes_and_workers(writer: RunWriter) -> None:
    run = leadline.open_run(writer.write_all(parts()).end().path)
    assert (run.name, run.status, run.modes(), run.workers()) == ("first", "Completed", ["eval", "train"], ["rank0-1"])
    assert run.tensor_names() == ["loss", GRADIENT, "a.weight"]
    assert run.tensor_names(collection="losses") == ["loss"]
    assert run.tensor_names(regex=r"weight$") == [GRADIENT, "a.weight"]
    assert run.steps() == [0, 1, 2, 3, 4, 5]
    assert run.steps(mode="eval") == [0]
    assert run.tensor(GRADIENT).steps() == [0, 2, 4]
    assert run.damage == []
    assert run.verify() == []


def test_statistics_are_those_captured_or_computed_from_the_tensor(writer: RunWriter) -> None:
    run = leadline.open_run(writer.write_all(parts()).end().path)
    assert run.tensor(GRADIENT).statistic("abs_mean", 2) == pytest.approx(0.2)
    assert run.tensor("a.weight").statistic("l1", 2) == 4.0
    assert run.tensor("a.weight").value(2).tolist() == [1.0, -3.0]
    assert run.tensor("loss").value(1).shape == ()
    table = run.tensor(GRADIENT).statistics("abs_mean")
    assert table.column_names == ["step", "mode", "mode_step", "time_ns", "worker", "value"]
    assert table["step"].to_pylist() == [0, 2, 4]


def test_tables(writer: RunWriter) -> None:
    run = leadline.open_run(writer.write_all(parts()).end().path)
    assert run.scalars(mode="eval").to_pylist()[0]["value"] == pytest.approx(0.2)
    assert run.scalars("loss").num_rows == 6
    assert run.system_metrics(kind="cpu", device="total")["value"].to_pylist() == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    assert run.system_metrics(kind="gpu").num_rows == 0
    (event,) = run.timeline().to_pylist()
    assert (event["name"], event["duration_ns"], json.loads(event["args"])) == ("forward", 5, {"a": 1})
    assert run.findings().num_rows == 0
    assert run.series().num_rows == 9
    query = "select name, count(*) n from series group by name order by name"
    assert run.sql(query).to_pylist() == [{"name": GRADIENT, "n": 3}, {"name": "loss", "n": 6}]
    assert run.sql("select max(value) m from system").to_pylist() == [{"m": 50.0}]


def test_not_captured_and_not_yet_are_different_errors(writer: RunWriter) -> None:
    writer.write_all(parts()[:6])
    run = leadline.open_run(writer.path)
    assert run.status == "InProgress"
    with pytest.raises(NotYetError, match="wait_for_step"):
        run.tensor("loss").value(40)
    with pytest.raises(NotYetError):
        run.wait_for_step(40, timeout=0.0)
    writer.end()
    run.refresh()
    with pytest.raises(NotCapturedError, match="nearest steps are"):
        run.tensor("loss").value(40)
    with pytest.raises(NotCapturedError, match="ended before step 40"):
        run.wait_for_step(40, timeout=5.0)
    with pytest.raises(NotCapturedError, match="did you mean 'loss'"):
        run.tensor("los")
    with pytest.raises(NotCapturedError, match="captured: abs_mean"):
        run.tensor(GRADIENT).statistics("l2")
    run.wait_for_step(0, timeout=0.0)


def test_a_run_is_read_while_it_grows(writer: RunWriter) -> None:
    run = leadline.open_run(writer.path)
    with pytest.raises(NotYetError, match="nothing was captured yet"):
        run.tensor("loss")
    seen = []
    for _ in writer.grow(parts()):
        seen.append(len(run.refresh().steps()))
    writer.end()
    assert seen == sorted(seen)
    assert run.refresh().steps() == [0, 1, 2, 3, 4, 5]
    assert len(run.scalars()) == len(leadline.open_run(writer.path).scalars()) == 6


def test_a_run_is_found_by_path_name_or_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "runs"
    for age, name in enumerate(["newest", "middle", "oldest"]):
        RunWriter(root / name, started_ns=START_NS - age).end()
    monkeypatch.setenv("LEADLINE_ROOT", str(root))
    assert leadline.open_run().name == "newest"
    assert leadline.open_run("-1").name == "middle"
    assert leadline.open_run("oldest").name == leadline.open_run(root / "oldest").name == "oldest"
    assert leadline.open_run("newest", root=root).name == "newest"
    assert [each.name for each in list_runs()] == ["newest", "middle", "oldest"]
    with pytest.raises(RunNotFoundError, match="did you mean 'oldest'"):
        leadline.open_run("oldst")
    with pytest.raises(RunNotFoundError, match="only 3 runs"):
        leadline.open_run("-7")
    with pytest.raises(RunNotFoundError, match="leadline run"):
        leadline.open_run(root=tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match="unknown scheme 'ftp'"):
        leadline.open_run("ftp://bucket/run")


def test_a_broken_manifest_is_a_one_line_error_and_does_not_hide_other_runs(tmp_path: Path) -> None:
    RunWriter(tmp_path / "whole")
    (Path(RunWriter(tmp_path / "broken").path) / layout.MANIFEST).write_text('{"name": 3')
    with pytest.raises(DamagedRunError, match="cannot be read as a manifest"):
        leadline.open_run(tmp_path / "broken")
    assert {run.name: run.status == DAMAGED for run in list_runs(tmp_path)} == {"broken": True, "whole": False}
    assert leadline.open_run(root=tmp_path).name == "whole"


def test_a_run_whose_agent_died_has_ended(writer: RunWriter) -> None:
    host = os.uname().nodename
    writer.write_all(parts())
    writer.set_status("InProgress", node=host, agent_pid=2**22 + 1, job_pid=2**22 + 1)
    run = leadline.open_run(writer.path)
    assert run.status == "InProgress"
    writer.write_worker("rank0-1", node=host, pid=2**22 + 1)
    assert run.status == "Interrupted"
    writer.write_worker("rank0-1", node=host, pid=os.getpid(), state="ended")
    assert run.status == "Completed"


def test_tensors_of_other_types(writer: RunWriter) -> None:
    halves = {"h": ("BF16", (2,), struct.pack("<HH", 0x3F80, 0xC000)), "s": ("F64", (), struct.pack("<d", 2.5))}
    strange = {"f8": ("F8_E8M0", (1,), b"\0")}
    writer.write_all([RawTensors(0, {**halves, **strange}), Capture(0)]).end()
    run = leadline.open_run(writer.path)
    value = run.tensor("h").value(0)
    assert value.dtype == np.float32
    assert value.tolist() == [1.0, -2.0]
    assert run.tensor("s").value(0) == 2.5
    with pytest.raises(DamagedRunError, match="F8_E8M0"):
        run.tensor("f8").value(0)


def test_a_truncated_safetensors_segment_is_damage_and_the_rest_is_read(writer: RunWriter) -> None:
    writer.write_all([float_tensors(0, {"a": [1.0]}), float_tensors(1, {"a": [2.0]}), Capture(1)]).end()
    path = Path(writer.path) / layout.tensor_segment("rank0-1", 1)
    path.write_bytes(path.read_bytes()[:-1])
    run = leadline.open_run(writer.path)
    assert run.tensor("a").steps() == [1]
    (line,) = run.damage
    assert line.startswith("tensors/rank0-1/000001.safetensors: ")


def test_a_run_with_foreign_files_opens(writer: RunWriter) -> None:
    for each in layout.FOLDERS:
        (Path(writer.path) / each / "rubbish").write_bytes(b"\0\1")
    (Path(writer.path) / layout.SERIES / "w").mkdir()
    (Path(writer.path) / layout.SERIES / "w" / "000001.arrow").write_bytes(b"rubbish and more rubbish")
    run = leadline.open_run(writer.path)
    assert run.tensor_names() == []
    assert len(run.damage) == 1
