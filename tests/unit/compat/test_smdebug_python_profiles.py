"""smdebug's analysis of Python profiles and data loaders: compared with ``pstats`` and with what was written."""

from __future__ import annotations

import cProfile
import json
import pstats
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import nn

import leadline.compat.smdebug.pytorch as smd
from leadline.compat.smdebug.core.tfevent.timeline_file_writer import TimelineFileWriter
from leadline.compat.smdebug.core.utils import error_handling_agent
from leadline.compat.smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from leadline.compat.smdebug.profiler.analysis.notebook_utils.timeline_charts import TimelineCharts
from leadline.compat.smdebug.profiler.analysis.python_profile_analysis import PyinstrumentAnalysis, cProfileAnalysis
from leadline.compat.smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
from leadline.compat.smdebug.profiler.analysis.utils.python_profile_analysis_utils import Metrics, cProfileStats
from leadline.compat.smdebug.profiler.analysis.utils.pytorch_dataloader_analysis import PT_dataloader_analysis
from leadline.compat.smdebug.profiler.profiler_config_parser import ProfilerConfigParser
from leadline.compat.smdebug.profiler.python_profile_utils import PythonProfileModes, StepPhase

RECORDED: Final = Path(__file__).parents[2] / "data" / "smdebug" / "prof"
CPROFILE: Final = RECORDED / "framework" / "pytorch" / "cprofile"
GLOBAL: Final = PythonProfileModes.GLOBAL
PRE, POST = PythonProfileModes.PRE_STEP_ZERO, PythonProfileModes.POST_HOOK_CLOSE
START: Final = 1_600_000_000


@pytest.fixture(autouse=True)
def no_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    yield
    hook = smd.get_hook()
    if hook is not None:
        hook.close()
    smd.del_hook()


def table(stats: pstats.Stats) -> dict[Any, Any]:
    return dict(stats.stats)  # type: ignore[attr-defined]


def files() -> list[Path]:
    return sorted(CPROFILE.rglob("python_stats"), key=lambda path: path.parent.name)


# --- what smdebug wrote -----------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", [CPROFILE, RECORDED])
def test_profiles_of_steps_are_those_of_the_files(folder: Path) -> None:
    analysis = cProfileAnalysis(str(folder))
    forward, backward = sorted(files(), key=lambda path: "forwardpassend-1795162489323431" in str(path))
    whole = analysis.fetch_profile_stats_by_step(2, mode=GLOBAL)
    first = analysis.fetch_profile_stats_by_step(2, mode=GLOBAL, end_phase=StepPhase.FORWARD_PASS_END)
    second = analysis.fetch_profile_stats_by_step(2, mode=GLOBAL, start_phase=StepPhase.FORWARD_PASS_END)
    assert whole is not None
    assert first is not None
    assert second is not None
    assert table(first.ps) == table(pstats.Stats(str(forward)))
    assert table(second.ps) == table(pstats.Stats(str(backward)))
    both = pstats.Stats(str(forward))
    both.add(str(backward))
    assert table(whole.ps) == table(both)
    assert analysis.fetch_profile_stats_by_step(2) is None  # no step of mode TRAIN
    assert analysis.fetch_profile_stats_by_step(3, mode=GLOBAL) is None
    assert analysis.list_available_node_ids() == ["18612-vm"]


def test_the_list_says_where_each_profile_begins_and_ends() -> None:
    listed = cProfileAnalysis(CPROFILE).list_profile_stats()
    assert len(listed) == 2
    row = listed.iloc[1].to_dict()
    assert row["stats_path"] == str(next(path for path in files() if "forwardpassend-1795162489323431" in str(path)))
    assert (row["profiler_name"], row["framework"], row["node_id"]) == ("cprofile", "pytorch", "18612-vm")
    assert (row["start_mode"], row["start_step"], row["start_phase"]) == ("global", 2, StepPhase.FORWARD_PASS_END)
    assert (row["end_mode"], row["end_step"], row["end_phase"]) == ("global", 3, StepPhase.STEP_START)
    assert row["start_time_since_epoch_in_micros"] == 1795162489323431.0


def test_functions_are_printed_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    stats = cProfileAnalysis(CPROFILE).fetch_profile_stats_by_time(1_795_162_489, 1_795_162_490)
    assert stats is not None
    stats.print_top_n_functions(Metrics.CUMULATIVE_TIME, 3)
    printed = capsys.readouterr().out
    assert "Ordered by: cumulative time" in printed
    assert "due to restriction <3>" in printed
    functions = stats.get_function_stats().set_index("function_name")
    expected = {pstats.func_std_string(place): entry for place, entry in table(stats.ps).items()}  # type: ignore[attr-defined]
    assert set(functions.index) == set(expected)
    for name, row in functions.iterrows():
        calls = (row["prim_calls"], row["total_calls"], row["total_time"], row["cumulative_time"])
        assert calls == expected[name][:4]
        assert len(row["callers"]) == len(expected[name][4])
    with pytest.raises(SMDebugTypeError, match=r"by is one of Metrics.TOTAL_TIME"):
        stats.print_top_n_functions("tottime")  # type: ignore[arg-type]


def test_parts_of_a_job_are_told_apart(tmp_path: Path) -> None:
    def setup() -> None:
        sum(range(100))

    def step() -> None:
        sum(range(10))

    def end() -> None:
        sum(range(5))

    def write(place: str, function: Callable[[], None], *, at: int) -> None:
        profile = cProfile.Profile()
        profile.runcall(function)
        folder = tmp_path / "7-host" / place.format(at * 1e6, (at + 1) * 1e6)
        folder.mkdir(parents=True)
        profile.dump_stats(folder / "python_stats")

    write("prestepzero-*-start-{}_train-0-stepstart-{}", setup, at=1)
    write("train-0-stepstart-{}_train-0-forwardpassend-{}", step, at=2)
    write("train-0-forwardpassend-{}_eval-1-stepstart-{}", step, at=3)
    write("prestepzero-*-end-{}_posthookclose-*-end-{}", end, at=4)
    (tmp_path / "7-host" / "unknown").mkdir()
    (tmp_path / "7-host" / "unknown" / "python_stats").write_bytes(b"?")
    analysis = cProfileAnalysis(tmp_path)

    def names(stats: cProfileStats | None) -> set[str]:
        assert stats is not None
        own = [function.function_name for function in stats.function_stats_list]
        return {name.rpartition("(")[2].rstrip(")") for name in own} & {"setup", "step", "end"}

    by_phase = analysis.fetch_profile_stats_by_job_phase()
    found = {phase: names(stats) for phase, stats in by_phase.items()}
    assert found == {"initialization": {"setup"}, "training_loop": {"step"}, "finalization": {"end"}}
    calls = {one.function_name: one.total_calls for one in by_phase["training_loop"].function_stats_list}
    assert [count for name, count in calls.items() if name.endswith("(step)")] == [2]
    modes = analysis.fetch_profile_stats_by_training_phase()
    train, evaluate = PythonProfileModes.TRAIN, PythonProfileModes.EVAL
    assert set(modes) == {(PRE, train), (train, train), (train, evaluate), (PRE, POST)}
    assert names(analysis.fetch_pre_step_zero_profile_stats()) == {"setup"}
    assert names(analysis.fetch_post_hook_close_profile_stats()) == {"end"}
    assert analysis.fetch_profile_stats_by_time(10, 20) is None
    assert analysis.fetch_profile_stats_by_step(0, node_id="8-host") is None


def test_damage_and_absence_are_named(tmp_path: Path) -> None:
    with pytest.raises(SMDebugValueError, match="there is no such folder; give that of the Python profiles"):
        cProfileAnalysis(tmp_path / "none")
    assert cProfileAnalysis(tmp_path).list_profile_stats().empty
    folder = tmp_path / "7-host" / "train-0-stepstart-1.0_train-0-forwardpassend-2.0"
    folder.mkdir(parents=True)
    (folder / "python_stats").write_bytes(b"\xff")
    with pytest.raises(SMDebugValueError, match=r"python_stats cannot be read"):
        cProfileAnalysis(tmp_path).fetch_profile_stats_by_step(0)


def test_profiles_of_pyinstrument_are_pages_and_trees(tmp_path: Path) -> None:
    folder = tmp_path / "7-host" / "train-3-stepstart-1.0_train-3-forwardpassend-2.0"
    folder.mkdir(parents=True)
    (folder / "python_stats.json").write_text(json.dumps({"duration": 0.5}))
    (folder / "python_stats.html").write_text("<html>")
    found = PyinstrumentAnalysis(tmp_path).fetch_profile_stats_by_step(3)
    assert found is not None
    assert [(one.html_file_path, one.json_stats) for one in found] == [
        (str(folder / "python_stats.html"), {"duration": 0.5})
    ]
    assert cProfileAnalysis(tmp_path).list_profile_stats().empty


# --- runs of Leadline, as profilerconfig.json requests them -----------------------------------------------


def configure(path: Path, monkeypatch: pytest.MonkeyPatch, **parameters: Any) -> None:
    path.write_text(json.dumps({"ProfilingParameters": parameters}))
    monkeypatch.setenv("SMPROFILER_CONFIG_PATH", str(path))


def slow_layer(values: torch.Tensor) -> torch.Tensor:
    time.sleep(0.002)
    return values


def train(out: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook = smd.Hook(out)
    hook.register_module(model)
    for _ in range(5):
        optimizer.zero_grad()
        slow_layer(model(torch.randn(4, 2)).sum()).backward()
        optimizer.step()
    hook.close()


def test_a_hook_profiles_what_the_configuration_of_the_profiler_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(
        tmp_path / "profilerconfig.json",
        monkeypatch,
        pythonprofilingconfig='{"startstep": 2, "NumSteps": 2, "ProfilerName": "cProfile", }',
    )
    train(tmp_path / "out")
    analysis = cProfileAnalysis(tmp_path / "out")
    listed = analysis.list_profile_stats()
    assert set(listed["start_step"]) == {2, 3}
    assert set(listed["start_mode"]) == {"train"}
    for step, count in ((2, 1), (3, 1), (4, 0)):
        stats = analysis.fetch_profile_stats_by_step(step)
        assert (stats is not None) == (count > 0)
        if stats is not None:
            slow = [one for one in stats.function_stats_list if one.function_name.endswith("(slow_layer)")]
            assert [one.total_calls for one in slow] == [count]
            assert slow[0].cumulative_time > 0.001
            sleep = next(one for one in stats.function_stats_list if "time.sleep" in one.function_name)
            assert any(caller.endswith("(slow_layer)") for caller in sleep.callers)


def test_a_configuration_that_cannot_be_read_costs_only_the_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "profilerconfig.json").write_text("{")
    monkeypatch.setenv("SMPROFILER_CONFIG_PATH", str(tmp_path / "profilerconfig.json"))
    train(tmp_path / "out")
    assert "nothing is profiled" in caplog.text
    assert smd.create_trial(tmp_path / "out").loaded_all_steps
    assert not ProfilerConfigParser().profiling_enabled


# --- timelines that a script writes itself ----------------------------------------------------------------


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Profiles with three steps; the third waits four times as long for its batch."""
    configure(tmp_path / "config.json", monkeypatch, LocalPath=str(tmp_path / "profiles"), RotateMaxFileSizeInBytes=900)
    writer = TimelineFileWriter(ProfilerConfigParser())
    for step, wait in enumerate((0.1, 0.1, 0.4)):
        facts = {"step_num": str(step)}
        writer.write_trace_events(START + step, "Step:ModeKeys.TRAIN", "Step:ModeKeys.TRAIN", duration=0.9, **facts)
        writer.write_trace_events(START + step, "DataLoaderIter::GetNext", "next", duration=wait, **facts)
        loader = {"worker_id": step, "num_workers": 3, "pin_memory": step == 0}
        writer.write_trace_events(START + step, "DataLoaderWorker", "run", duration=step + 1, **loader)
    writer.close()
    return tmp_path / "profiles"


def test_trace_files_that_are_written_are_read_as_a_timeline(traces: Path) -> None:
    files = sorted((traces / "framework" / "pevents" / "2020091312").iterdir())
    assert len(files) > 1
    assert not list((traces / "framework").glob("*.tmp"))
    assert all(file.name.endswith("_pythontimeline.json") for file in files)
    frame = PandasFrame(traces)
    starts = frame.get_all_framework_metrics()["start_time"]
    assert starts[0] == "2020-09-13T12:26:40:000000"
    assert frame.convert_datetime_to_timestamp(starts[0]) == START * 1e6
    loaders = frame.get_all_dataloader_metrics(["DataLoaderWorker"])
    assert loaders["duration_us"].tolist() == [1e6, 2e6, 3e6]
    assert loaders["worker_id"].tolist() == [0, 1, 2]
    assert loaders["pin_memory"].tolist() == ["True", "False", "False"]
    assert loaders["num_workers"].tolist() == [3, 3, 3]


def test_what_the_training_did_at_moments_and_in_intervals(traces: Path) -> None:
    frame = PandasFrame(traces)
    moments = [datetime.fromtimestamp(START + second, UTC) for second in (0.05, 2.2)]
    phases, names, modes = frame.get_framework_metrics_by_timesteps(moments)
    assert modes == pytest.approx({"Step:ModeKeys.TRAIN": 1.8e6})
    assert names["run"] == pytest.approx(6e6)  # the first worker at the first moment, the others at the second
    assert phases == pytest.approx({"DataLoaderWorker": 1.0, "DataLoaderIter::GetNext": 0.5e6 / 6e6})
    begin, end = [datetime.fromtimestamp(START + 1.5, UTC)], [datetime.fromtimestamp(START + 1.8, UTC)]
    phases, names = frame.get_framework_metrics_by_begin_and_end_timesteps(begin, end)
    assert phases == {"DataLoaderWorker": 1.0}
    assert names == {"run": 1.0}


def test_data_loaders_are_described_and_outliers_returned(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    analysis = PT_dataloader_analysis(PandasFrame(traces))
    waits = analysis.analyze_dataloader_getnext()
    assert waits["duration_us"].tolist() == [400_000]
    assert analysis.analyze_dataloaderWorkers() is None
    assert analysis.analyze_batchtime() is None
    assert analysis.analyze_dataloaderIter_initialization() is None
    said = capsys.readouterr().out
    assert "3 calls of GetNext: median 100 ms, longest 400 ms." in said
    assert "3 worker processes: median 2000 ms, longest 3000 ms." in said
    assert "Median time of a batch: 1 s." in said
    assert isinstance(analysis.plot_the_window(START * 1e6, (START + 3) * 1e6), TimelineCharts)


def test_a_folder_that_cannot_be_written_costs_only_the_events(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configure(tmp_path / "config.json", monkeypatch, LocalPath="/dev/null/none", FileOpenFailThreshold="2")
    writer = TimelineFileWriter(ProfilerConfigParser())
    for _ in range(4):
        writer.write_trace_events(START, "phase", "event")
    writer.flush()
    writer.close()
    assert caplog.text.count("events are missing from the timeline") == 1


def test_the_first_error_disables_guarded_functions(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    @error_handling_agent.catch_smdebug_errors(default_return_val=lambda value: -value)
    def guarded(value: int) -> int:
        calls.append(value)
        return 1 // value

    try:
        assert guarded(1) == 1
        assert guarded(0) == 0
        assert error_handling_agent.disable_smdebug
        assert guarded(5) == -5
        assert calls == [1, 0]
        assert "ZeroDivisionError" in caplog.text
    finally:
        error_handling_agent.disable_smdebug = False
    assert guarded(1) == 1
