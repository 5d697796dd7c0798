"""The time breakdown of ``leadline show``, from the records of a run to the text."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from timelines import CPU, WORKER, merge_by_time, sampled, training
from typer.testing import CliRunner

from leadline.analysis.overview import time_breakdown_of
from leadline.cli.app import application
from leadline.cli.measurements import time_block
from leadline.reader.run import Run
from leadline.testing.runs import Part, RunWriter

SLOW = {"data": 60.0, "forward": 20.0, "backward": 30.0}


def shown(tmp_path, records: list[Part], *options: str, **facts: object) -> str:
    writer = RunWriter(tmp_path / "run").write_all(records).end()
    writer.write_worker(WORKER, state="ended", facts=facts)
    result = CliRunner().invoke(application(), ["show", writer.path, *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_phases_throughput_bottleneck_and_suggestion(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    output = shown(tmp_path, training([SLOW] * 30), batch_size=8, flops_per_step=5e9)
    lines = [line.rstrip() for line in output.splitlines()]
    start = lines.index("time breakdown")
    assert lines[start + 1] == "  phases      data loading 55 %, backward 27 %, forward 18 % of the step time"
    assert lines[start + 3] == (
        "  throughput  9.09 steps/s, step time p50 110 ms, p95 110 ms, 72.7 samples/s, 45.5 GFLOP/s"
    )
    assert lines[start + 4] == "  bottleneck  input: 55 % of the step time is waiting for data"
    assert lines[start + 5].startswith("  try         reading the next batches")


def test_a_run_with_a_problem_of_the_model_has_no_advice_on_speed(tmp_path) -> None:
    writer = RunWriter(tmp_path / "run").write_all(training([SLOW] * 30)).end()
    time = time_breakdown_of(Run(writer.path))
    texts = {}
    for has_problem in (False, True):
        console = Console(width=200, file=io.StringIO())
        console.print(time_block(time, has_problem=has_problem))
        texts[has_problem] = console.file.getvalue()
    assert "reading the next batches" in texts[False]
    assert "input: 55 %" in texts[True]
    assert "reading the next batches" not in texts[True]


def test_json_output(tmp_path) -> None:
    records = merge_by_time(training([SLOW] * 30), sampled({CPU: [10.0, 20.0, 30.0]}))
    time = json.loads(shown(tmp_path, records, "--json"))["time"]
    assert time["bound"]["kind"] == "input"
    assert time["bound"]["try"]
    assert [phase["phase"] for phase in time["phases"]] == ["data", "backward", "forward"]
    assert time["steps"] == {"train": 30, "eval": 0, "predict": 0}
    assert [(entry["metric"], entry["p50"]) for entry in time["usage"]] == [("utilization_percent", 20.0)]
    assert time["ranks"] is None


def test_a_run_without_steps_has_no_time_breakdown(tmp_path) -> None:
    assert "time breakdown" not in shown(tmp_path, list(sampled({CPU: [10.0]})))
