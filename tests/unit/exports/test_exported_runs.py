"""Export of a stored run as a trace and as tables, complete or in part."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chrome_trace import read_trace, tracks
from timelines import CPU, MS, gpu, merge_by_time, sampled, training

from leadline.cli import main
from leadline.exports import perfetto
from leadline.exports.perfetto import export_trace
from leadline.exports.span import Span
from leadline.exports.tensorboard_events import GrowingEvents
from leadline.reader.run import Run
from leadline.records.event import Event
from leadline.store import layout
from leadline.testing.runs import START_NS, Capture, RunWriter, TimelineEvent

SECOND = 1000 * MS
FINDING = {
    "rule": "low_gpu_utilization",
    "id": 1,
    "step": 3,
    "last_step": 3,
    "is_open": True,
    "time_ns": START_NS + SECOND,
    "message": "gpu0 idles",
    "suggestion": "more workers",
    "tensors": ["gpu0", "gpu1"],
    "tensor_count": 2,
    "worker": None,
    "count": 1,
    "evidence": {},
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two workers with ten steps of 200 ms, a collective, a checkpoint, a skipped step, two sensors and a finding."""
    steps = [{"data": 20.0, "forward": 60.0, "backward": 80.0, "optimizer": 40.0}] * 10
    other = [
        Event("imports", 0, START_NS - 30 * MS, 20 * MS, "initialization"),
        Event("collective", 4, START_NS + 900 * MS, 30 * MS, "train", args={"op": "all_reduce", "count": 3}),
        Event("checkpoint", 5, START_NS + 1195 * MS, 50 * MS, "train"),
        Event("step_skipped", 6, START_NS + 1300 * MS),
    ]
    parts = merge_by_time(
        training(steps),
        training(steps, worker="rank1-2"),
        [TimelineEvent(event) for event in other],
        sampled({CPU: [10.0 * number for number in range(8)], gpu(0): [5.0] * 8}, every_ms=250.0),
    )
    folder = tmp_path / "run"
    writer = RunWriter(folder).write_all(parts)
    findings = folder / layout.rule_findings(str(FINDING["rule"]))
    findings.parent.mkdir()
    findings.write_text(json.dumps(FINDING) + "\n")
    writer.end()
    return folder


@pytest.fixture
def export(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.chdir(tmp_path)

    def call(output: str, *words: str) -> Path:
        sys.argv[1:] = ["export", str(run), "-o", output, *words]
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0
        return tmp_path / output

    return call


def counters(trace: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    samples: dict[str, list[tuple[float, float]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "C":
            samples.setdefault(event["name"], []).append((event["ts"], event["args"]["value"]))
    return samples


def test_a_trace_contains_the_whole_run(export: Callable[..., Path]) -> None:
    trace = read_trace(str(export("trace.json.gz")))
    by_track = tracks(trace)
    origin_ns = int(trace["otherData"]["origin_ns"])
    assert origin_ns == START_NS - 30 * MS
    assert set(by_track) == {
        ("run run", "job"),
        ("run run", "findings"),
        ("rank0-1", "start and end"),
        ("rank0-1", "steps"),
        ("rank0-1", "phases"),
        ("rank0-1", "collectives"),
        ("rank0-1", "checkpoints"),
        ("rank0-1", "events"),
        ("rank1-2", "steps"),
        ("rank1-2", "phases"),
    }
    steps = by_track["rank0-1", "steps"]
    assert [event["name"] for event in steps] == [f"train {step}" for step in range(10)]
    assert [(event["ts"], event["dur"]) for event in steps[:2]] == [(30_000, 200_000), (230_000, 200_000)]
    phases = by_track["rank1-2", "phases"]
    assert [(event["name"], event["dur"]) for event in phases[:4]] == [
        ("data", 20_000),
        ("forward", 60_000),
        ("backward", 80_000),
        ("optimizer", 40_000),
    ]
    (collective,) = by_track["rank0-1", "collectives"]
    assert (collective["name"], collective["args"]["count"], collective["args"]["step"]) == ("all_reduce", 3, 4)
    (finding,) = by_track["run run", "findings"]
    assert (finding["name"], finding["s"], finding["ts"]) == ("low_gpu_utilization", "g", 1_030_000)
    assert finding["args"]["message"] == "gpu0 idles"
    assert counters(trace)["cpu total utilization_percent"][:2] == [(280_000, 0.0), (530_000, 10.0)]
    assert trace["otherData"]["system_metrics"] == {"samples": 16, "written": 16}


def test_a_part_by_steps_or_times_contains_what_overlaps_it(export: Callable[..., Path]) -> None:
    by_steps = tracks(read_trace(str(export("steps.json", "--from", "4", "--until", "6"))))
    assert [event["name"] for event in by_steps["rank1-2", "steps"]] == ["train 4", "train 5"]
    assert ("run run", "findings") in by_steps
    trace = read_trace(str(export("time.json", "--from", "1.1s", "--until", "1300ms")))
    by_time = tracks(trace)
    assert [event["name"] for event in by_time["rank1-2", "steps"]] == ["train 5", "train 6"]
    assert ("run run", "findings") not in by_time
    assert [value for _, value in counters(trace)["cpu total utilization_percent"]] == [40.0]
    assert trace["otherData"]["from_us"] == 1_130_000


def test_a_counter_with_many_samples_is_downsampled_and_reported(
    export: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(perfetto, "MAX_SAMPLES", 4)
    monkeypatch.setattr(perfetto.downsample, "__defaults__", (4,))
    trace = read_trace(str(export("trace.json")))
    assert trace["otherData"]["system_metrics"]["written"] == 4 + 2
    assert "2 counters have more than 4 samples" in trace["otherData"]["system_metrics"]["downsampled"]
    assert "2 counters" in capfd.readouterr().err


def test_exported_tables_equal_those_of_the_reader(export: Callable[..., Path], run: Path) -> None:
    folder, read = export("tables", "--to", "parquet"), Run(str(run))
    expected = {
        "series": read.series(),
        "system": read.system_metrics(),
        "timeline": read.timeline(),
        "findings": read.findings(),
    }
    for name, table in expected.items():
        assert table.num_rows
        assert pq.read_table(folder / f"{name}.parquet").equals(table), name


def test_csv_has_lists_as_text_and_may_be_a_part(export: Callable[..., Path]) -> None:
    folder = export("tables", "--to", "csv", "--until", "1500ms")
    with open(folder / "findings.csv") as file:
        (finding,) = csv.DictReader(file)
    assert (finding["message"], finding["tensors"]) == ("gpu0 idles", "gpu0 gpu1")
    with open(folder / "system.csv") as file:
        assert len(list(csv.DictReader(file))) == 2 * 5


def test_numbers_become_tensorboard_scalars(export: Callable[..., Path], run: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    folder = export("events", "--to", "tensorboard")
    (file,) = (folder / "rank0-1-train").iterdir()
    events = list(loader.RawEventFileLoader(str(file)).Load())
    assert len(events) == 1 + 10  # the file version, and one loss for each step
    assert b"loss" in events[1]


def test_a_step_of_a_growing_run_is_written_at_the_next_update(tmp_path: Path) -> None:
    events, writer = GrowingEvents(str(tmp_path / "events")), RunWriter(tmp_path / "run")

    def update(*parts: Capture, is_final: bool = False) -> int:
        writer.write_all(parts)
        return events.update(Run(writer.path), Span(), is_final=is_final)

    assert update(Capture(0, {"loss": {"value": 1.0}})) == 0
    assert update(Capture(0, {"accuracy": {"value": 0.5}})) == 2
    assert update(Capture(1, {"loss": {"value": 1.0}})) == 0
    assert update(is_final=True) == 1


def test_an_empty_run_is_a_valid_trace(tmp_path: Path) -> None:
    RunWriter(tmp_path / "empty").write_all([Capture(0)])
    export_trace(Run(str(tmp_path / "empty")), str(tmp_path / "t.json"), Span())
    assert ("run empty", "job") in tracks(read_trace(str(tmp_path / "t.json")))


def test_a_worker_with_only_a_timeline_is_in_the_trace(tmp_path: Path) -> None:
    RunWriter(tmp_path / "run").write_all(training([{"forward": 1.0}] * 3, has_captures=False))
    export_trace(Run(str(tmp_path / "run")), str(tmp_path / "t.json"), Span())
    assert len(tracks(read_trace(str(tmp_path / "t.json")))["rank0-1", "steps"]) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "-o is missing; give an output path, for example -o trace.json.gz"),
        (("--to", "perfeto", "-o", "t.json"), "no format named 'perfeto'; did you mean 'perfetto'?"),
        (("-o", "trace.txt"), "a trace must end in .json or .json.gz"),
        (("-o", "nowhere/trace.json"), "no such folder: nowhere"),
        (("-o", "t.json", "--from", "soon"), "--from 'soon' is not a step (120) or a time after the start (90s, 5min)"),
        (("-o", "t.json", "--from", "70"), "--from 70: the run has no such step; the last recorded step is 9"),
        (("-o", "t.json", "--from", "5", "--until", "1s"), "--from 5 is not before --until 1s"),
        (("-o", "run/status.json", "--to", "csv"), "is a file; --to csv writes into a folder"),
    ],
)
def test_errors_are_reported_before_anything_is_written(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(run.parent)
    sys.argv[1:] = ["export", str(run), *words]
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert message in capfd.readouterr().err
    assert sorted(path.name for path in run.parent.iterdir()) == ["run"]
