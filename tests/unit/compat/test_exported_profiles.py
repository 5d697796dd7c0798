"""Timelines and Python profiles of runs as smdebug's profiler writes them: read back, also by smdebug itself."""

from __future__ import annotations

import json
import os
import pstats
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import leadline
import leadline.compat.smdebug.pytorch as smd
from leadline.compat.export.profiles import export_profiles
from leadline.compat.smdebug.profiler.analysis.python_profile_analysis import cProfileAnalysis
from leadline.compat.smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame

PYTHON = os.environ.get("SMDEBUG_PYTHON", "")
READ = """
import json, sys
from smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader
from smdebug.profiler.analysis.python_profile_analysis import cProfileAnalysis
from smdebug.profiler.python_profile_utils import PythonProfileModes

reader = LocalAlgorithmMetricsReader(sys.argv[1])
events = reader.get_events(0, 2**52)
analysis = cProfileAnalysis(sys.argv[1] + "/framework/leadline/cprofile")
stats = analysis.fetch_profile_stats_by_step(2, mode=PythonProfileModes.TRAIN)
print(json.dumps({
    "events": sorted([event.event_phase, event.event_name, event.start_time, event.duration] for event in events),
    "functions": sorted([one.function_name, one.total_calls] for one in stats.function_stats_list),
    "listed": len(analysis.list_profile_stats(refresh_stats=False)),
}))
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with a Python profile of steps 2 and 3, and the export of it."""
    folder = tmp_path_factory.mktemp("profiled")
    configured = folder / "profilerconfig.json"
    window = {"PythonProfilingConfig": '{"StartStep": 2, "NumSteps": 2}'}
    configured.write_text(json.dumps({"ProfilingParameters": window}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMPROFILER_CONFIG_PATH", str(configured))
        hook = smd.Hook(folder / "run")
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        hook.register_module(model)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(4, 2)).sum().backward()
            optimizer.step()
        hook.record_trace_events(1_600_000_000.5, "Loading", "read", duration=0.25, bytes=7)
        hook.close()
        smd.del_hook()
    export_profiles(leadline.open_run(str(folder / "run")), str(folder / "exported"))
    return folder / "run", folder / "exported"


def events(frame: PandasFrame) -> list[tuple[Any, ...]]:
    """Return phase, name, step, start and end in microseconds of each event, in order."""
    columns = ["process", "framework_metric", "step", "start_time_us", "end_time_us"]
    rows = frame.get_all_framework_metrics()[columns].itertuples(index=False, name=None)
    return sorted((*row[:3], row[3] + frame.start_time, row[4] + frame.start_time) for row in rows)


def test_the_timeline_is_read_back(profiled: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    run, exported = profiled
    monkeypatch.setenv("LEADLINE_CACHE", str(exported.parent / "cache"))
    written, read = events(PandasFrame(run)), events(PandasFrame(exported))
    assert {phase for phase, *_ in written} >= {"Step:ModeKeys.TRAIN", "Forward", "Loading"}
    assert sum(phase == "Step:ModeKeys.TRAIN" for phase, *_ in written) == 5
    assert [row[:3] for row in read] == [row[:3] for row in written]
    for before, after in zip(written, read, strict=True):
        assert after[3:] == pytest.approx(before[3:], abs=1.5)


def test_python_profiles_are_those_of_the_run(profiled: tuple[Path, Path]) -> None:
    run, exported = profiled
    for step in (2, 3):
        of_run = cProfileAnalysis(run).fetch_profile_stats_by_step(step)
        of_export = cProfileAnalysis(exported).fetch_profile_stats_by_step(step)
        assert of_run is not None
        assert of_export is not None
        assert of_export.ps.stats == of_run.ps.stats  # type: ignore[attr-defined]
    files = sorted(exported.rglob("python_stats"))
    assert len(files) == 6  # forward, backward and optimizer of two steps
    assert pstats.Stats(str(files[0])).stats  # type: ignore[attr-defined]


@pytest.mark.skipif(not PYTHON, reason="SMDEBUG_PYTHON: a Python with smdebug 1.0.34")
def test_smdebug_itself_reads_both(profiled: tuple[Path, Path]) -> None:
    run, exported = profiled
    words = [PYTHON, "-c", READ, str(exported)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    found = json.loads(done.stdout.strip().splitlines()[-1])
    reader = PandasFrame(run).framework_metrics_reader
    expected = [
        [event.event_phase, event.event_name, round(event.start_time), round(event.duration)]
        for event in reader.get_events(0, 2**52)
    ]
    assert found["events"] == sorted(expected)
    assert found["listed"] == 6
    stats = cProfileAnalysis(run).fetch_profile_stats_by_step(2)
    assert stats is not None
    assert found["functions"] == sorted([one.function_name, one.total_calls] for one in stats.function_stats_list)
