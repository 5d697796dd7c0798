"""Export of a real run with every kind of profile window as one trace: operators, Python calls, data loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chrome_trace import read_trace, tracks
from launching import script, watched

from leadline.cli import export


@pytest.mark.slow
def test_a_real_run_with_all_windows_is_exported_as_one_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("default", "cprofile:at=start", "pyinstrument:at=20,for=2", "detailed:at=30,for=2")
    options = [word for option in asked for word in ("--profile", option)]
    run = watched(options, script("profiled.py"), "watched", "40", folder=tmp_path).run
    export.export(run.path, "perfetto", str(tmp_path / "trace.json.gz"), None, None)
    trace = read_trace(str(tmp_path / "trace.json.gz"))
    found = tracks(trace)
    (worker,) = run.workers()
    check_operators(found, worker, run)
    python = found[worker, "Python functions (cProfile)"]
    assert [event["name"] for event in python] == ["start", *["forward", "backward", "optimizer"] * 3]
    assert any("run_backward" in key for key in python[2]["args"])
    assert not any("run_backward" in key for key in python[1]["args"])
    calls = {event["name"] for event in found[worker, "Python calls (pyinstrument)"]}
    assert "main" in calls
    assert {event["name"] for event in found[worker, "data loading"]} >= {"wait", "fetch"}
    assert trace["otherData"]["left_out"] == []
    assert any(event["ph"] == "C" for event in trace["traceEvents"])


def check_operators(found: Any, worker: str, run: Any) -> None:
    (events,) = [slices for (name, track), slices in found.items() if name == worker and track.startswith("operators")]
    operators = [event for event in events if event["cat"] == "operator" and event["args"]["phase"] != "overhead"]
    assert len(operators) == len(run.operators(("start_ns", "thread", "operator"), device="cpu"))
    convolution = next(event for event in events if event["name"] == "layer1.0.conv1" and event["cat"] == "module")
    within = [
        event
        for event in operators
        if convolution["ts"] <= event["ts"] and event["ts"] + event["dur"] <= convolution["ts"] + convolution["dur"]
    ]
    assert "aten::conv2d" in {event["name"] for event in within}
    assert {event["args"]["module"] for event in within} == {"layer1.0.conv1"}
    backward = [event for event in operators if event["name"] == "aten::native_batch_norm_backward"]
    assert {"layer1.0.bn1", "layer1.1.bn1"} == {event["args"]["module"] for event in backward}
