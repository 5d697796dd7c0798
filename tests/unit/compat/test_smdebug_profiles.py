"""smdebug's readers of profiles: what they return, compared with the lines of the files."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from leadline.compat.smdebug.exceptions import SMDebugValueError
from leadline.compat.smdebug.profiler.algorithm_metrics_reader import LocalAlgorithmMetricsReader
from leadline.compat.smdebug.profiler.analysis.notebook_utils.heatmap import Heatmap
from leadline.compat.smdebug.profiler.analysis.notebook_utils.metrics_histogram import MetricsHistogram
from leadline.compat.smdebug.profiler.analysis.notebook_utils.reader_chart import ReaderChart
from leadline.compat.smdebug.profiler.analysis.notebook_utils.step_histogram import StepHistogram
from leadline.compat.smdebug.profiler.analysis.notebook_utils.step_timeline_chart import StepTimelineChart
from leadline.compat.smdebug.profiler.analysis.notebook_utils.timeline_charts import TimelineCharts
from leadline.compat.smdebug.profiler.analysis.utils.merge_timelines import MergedTimeline, MergeUnit
from leadline.compat.smdebug.profiler.analysis.utils.pandas_data_analysis import (
    PandasFrameAnalysis,
    Resource,
    StatsBy,
)
from leadline.compat.smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
from leadline.compat.smdebug.profiler.system_metrics_reader import LocalSystemMetricsReader
from leadline.compat.smdebug.profiler.utils import (
    TimeUnits,
    convert_utc_datetime_to_microseconds,
    convert_utc_timestamp_to_microseconds,
    get_node_id_from_system_profiler_filename,
    get_utctimestamp_us_since_epoch_from_system_profiler_file,
    is_valid_tracefilename,
    str2bool,
    us_since_epoch_to_human_readable_time,
    validate_system_profiler_file,
)

START = 1_600_000_000
"""When the job starts, in seconds since the epoch."""
STEPS = [("TRAIN", 0, 2.0, 1.0), ("TRAIN", 1, 3.0, 2.0), ("EVAL", 0, 6.0, 0.5), ("TRAIN", 2, 7.0, 1.0)]
"""Mode, step, start and duration in seconds."""


def sample(kind: str, name: str, dimension: str, value: float, second: float) -> dict[str, Any]:
    named = {"Type": kind, "Name": name, "Dimension": dimension, "NodeId": "algo-1"}
    return {**named, "Value": value, "Timestamp": START + second}


SAMPLES = [
    *(
        sample("cpu", f"cpu{core}", "CPUUtilization", 10.0 * second + core, second)
        for second in range(10)
        for core in (0, 1)
    ),
    *(sample("gpu", "gpu0", "GPUUtilization", 100.0 - second, second) for second in range(10)),
    *(sample("gpu", "gpu0", "GPUMemoryUtilization", 5.0, second) for second in range(10)),
]


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as smdebug writes it."""
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "job" / "profiler-output"
    system = folder / "system" / "incremental"
    system.mkdir(parents=True)
    ordered = sorted(SAMPLES, key=lambda entry: entry["Timestamp"])
    (system / f"{START}.algo-1.json").write_text("".join(f"{json.dumps(entry)}\n" for entry in ordered))
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": START * 10**6}}
    ]
    for pid, phase in enumerate(("Step:ModeKeys.TRAIN", "Step:ModeKeys.EVAL", "DataLoaderIter::GetNext"), 1):
        events.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": phase}})
    for mode, step, begin, length in STEPS:
        named = {"name": f"Step:ModeKeys.{mode}", "pid": 1 if mode == "TRAIN" else 2, "ph": "X"}
        events.append({**named, "ts": begin * 1e6, "dur": length * 1e6, "args": {"step_num": str(step)}})
    events.append({"name": "next", "pid": 3, "ph": "X", "ts": 2.1e6, "dur": 0.2e6, "args": {}})
    timeline = folder / "framework" / "pevents" / "2020091312"
    timeline.mkdir(parents=True)
    (timeline / f"{START + 8}000000_17-algo-1_pythontimeline.json").write_text(json.dumps(events))
    return tmp_path / "job"


def test_samples_are_those_of_the_files(profiles: Path) -> None:
    reader = LocalSystemMetricsReader(profiles)
    events = reader.get_events(START, START + 100, unit=TimeUnits.SECONDS)
    found = sorted((one.timestamp, one.type, one.name, one.dimension, one.value, one.node_id) for one in events)
    keys = ("Timestamp", "Type", "Name", "Dimension", "Value", "NodeId")
    assert found == sorted(tuple(entry[key] for key in keys) for entry in SAMPLES)
    assert len(reader.get_events(START, START + 100, TimeUnits.SECONDS, "gpu")) == 20
    assert len(reader.get_events((START + 1) * 10**6, (START + 3) * 10**6)) == 12
    assert reader.get_timestamp_of_first_available_file() == START * 10**6
    assert reader.get_timestamp_of_latest_available_file() == (START + 9) * 10**6


def test_events_of_the_timeline_have_steps_and_times(profiles: Path) -> None:
    reader = LocalAlgorithmMetricsReader(profiles)
    events = reader.get_events(START, START + 100, unit=TimeUnits.SECONDS)
    steps = [event for event in events if event.event_phase.startswith("Step:")]
    assert [(one.event_name.removeprefix("Step:ModeKeys."), one.start_time, one.duration) for one in steps] == [
        (mode, (START + begin) * 1e6, length * 1e6) for mode, _, begin, length in STEPS
    ]
    (loading,) = reader.get_events(START, START + 100, TimeUnits.SECONDS, "DataLoaderIter::GetNext")
    assert (loading.start_time, loading.duration) == (START * 1e6 + 2.1e6, 0.2e6)
    assert reader.get_events(START + 20, START + 30, unit=TimeUnits.SECONDS) == []
    of_step = LocalSystemMetricsReader(profiles).get_events_by_step(1, 1)
    assert {event.timestamp - START for event in of_step} == {3.0, 4.0, 5.0}


def test_tables_and_their_statistics(profiles: Path) -> None:
    frame = PandasFrame(profiles)
    system, framework = frame.get_all_system_metrics(), frame.get_all_framework_metrics()
    assert (system.shape, framework.shape) == ((40, 7), (5, 11))
    assert len(frame.get_all_system_metrics(["cpu0"])) == 10
    assert len(frame.get_all_framework_metrics(["Step:ModeKeys.TRAIN"])) == 3
    some, none = frame.get_profiler_data_by_time((START + 1) * 1e6, (START + 3) * 1e6, get_framework_metrics=False)
    assert (len(some), len(none)) == (12, 0)
    analysis = PandasFrameAnalysis(system, framework)
    job = analysis.get_job_statistics()
    assert (job["job_duration"], job["initialization"], job["training_loop_duration"]) == (9e6, 2e6, 6e6)
    assert job["finalization_%"] == pytest.approx(100 / 9)
    steps = analysis.get_step_statistics().set_index("training_phase").loc["Step:ModeKeys.TRAIN"]
    assert (steps["duration_min"], steps["duration_max"], steps["duration_mean"]) == (1e6, 2e6, pytest.approx(4e6 / 3))
    assert analysis.get_step_statistics(by="step") is None  # type: ignore[arg-type]
    processes = analysis.get_step_statistics(by=StatsBy.PROCESS)
    assert set(processes["process"]) == {"Step:ModeKeys.TRAIN", "Step:ModeKeys.EVAL", "DataLoaderIter::GetNext"}
    intervals = analysis.get_training_phase_intervals("Step:ModeKeys.TRAIN")
    assert intervals[["start_time_us", "end_time_us"]].to_numpy().tolist() == [[2e6, 5e6], [7e6, 8e6]]
    cpu = analysis.get_utilization_stats(Resource.CPU).iloc[0]
    values = [entry["Value"] for entry in SAMPLES if entry["Type"] == "cpu"]
    assert (cpu["min"], cpu["max"], cpu["mean"]) == (min(values), max(values), pytest.approx(sum(values) / 20))
    trained = analysis.get_utilization_stats(Resource.CPU, StatsBy.TRAINING_PHASE, ["Step:ModeKeys.TRAIN"]).iloc[0]
    assert (trained["min"], trained["max"]) == (20.0, 81.0)
    usage = analysis.get_device_usage_stats(Resource.CPU, [(90, 100), (0, 90)]).iloc[0]
    assert (usage["(90, 100)"], usage["(0, 90)"]) == (2, 18)


def test_times_keep_their_microseconds() -> None:
    assert convert_utc_timestamp_to_microseconds(START + 0.25, TimeUnits.SECONDS) == START * 10**6 + 250_000
    assert convert_utc_timestamp_to_microseconds(1_600_000_000_123_456) == 1_600_000_000_123_456


def lines(chart: ReaderChart) -> list[str]:
    """Return the names of what a chart has drawn."""
    return [str(trace.name) for figure in chart.figures for trace in figure.data]


def test_charts_of_notebooks_draw_the_run(profiles: Path) -> None:
    system, framework = LocalSystemMetricsReader(profiles), LocalAlgorithmMetricsReader(profiles)
    histogram = MetricsHistogram(system)
    histogram.plot(select_dimensions=["CPU"], select_events=["cpu0$"])
    assert len(lines(histogram)) == 1
    histogram.plot()
    assert len(histogram.figures) == 2
    histogram.plot(select_dimensions=["IOWait"])
    assert histogram.figures == []
    first = system.get_timestamp_of_first_available_file()
    assert lines(Heatmap(system, starttime=first, endtime=first + 4e6))
    assert lines(TimelineCharts(system, framework))
    steps = StepHistogram(framework)
    steps.plot()
    assert lines(steps)
    timeline = StepTimelineChart(framework)
    before = lines(timeline)
    timeline.update_data(0)
    assert lines(timeline) == before != []
    histogram.plot()
    drawn = lines(histogram)
    histogram.update_data(0)
    assert lines(histogram) == drawn != []
    histogram.clear()
    assert histogram.figures == []


def test_what_ran_in_a_selected_interval(profiles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    charts = TimelineCharts(LocalSystemMetricsReader(profiles), LocalAlgorithmMetricsReader(profiles))
    spent = charts.find_time_annotations([2, 3, 4])
    # from second 2 to second 4: step 0 (2 to 3), the first half of step 1 (3 to 5), and the loading within step 0
    train = {"Step:ModeKeys.TRAIN_0": 1000.0, "Step:ModeKeys.TRAIN_1": 1000.0}
    assert spent == pytest.approx(train | {"DataLoaderIter::GetNext": 200.0})
    said = capsys.readouterr().out.splitlines()
    assert f"Selected timerange: {START + 2}.0 to {START + 4}.0" in said  # IPython, if imported, shows the figure first
    assert f"Spent {spent['Step:ModeKeys.TRAIN_1']} ms (cumulative time) in Step:ModeKeys.TRAIN_1" in said
    charts.plot_detailed_profiler_data([6, 8])
    (figure,) = charts.figures  # no data was loaded then
    assert len(figure.data) == 2  # the last step of the training, and the batch that was evaluated
    for wrong in ([], [10], [-1, 2]):
        with pytest.raises(SMDebugValueError, match="there are 10 samples of the CPU utilization"):
            charts.find_time_annotations(wrong)
    with pytest.raises(SMDebugValueError, match="framework_metrics_reader"):
        TimelineCharts(LocalSystemMetricsReader(profiles)).find_time_annotations([2])


def test_a_merged_timeline_has_the_events_between_its_bounds(profiles: Path, tmp_path: Path) -> None:
    merged = MergedTimeline(str(profiles), output_directory=str(tmp_path / "out"))
    second = 10**6
    paths = [
        merged.merge_timeline((START + 2.5) * second, (START + 6.2) * second),
        merged.merge_timeline(1, 2, MergeUnit.STEP),
        merged.merge_timeline(0, (START + 100) * second),
    ]
    traces = [json.loads(Path(path).read_text())["traceEvents"] for path in paths]
    slices = [sum(event["ph"] == "X" for event in trace) for trace in traces]
    assert 0 < slices[0] < slices[2]
    assert 0 < slices[1] < slices[2]


def test_what_scripts_import_from_the_utilities() -> None:
    assert [str2bool(text) for text in ("True", "yes", "1", "off", "F", "0")] == [True, True, True, False, False, False]
    assert str2bool(True) is True
    with pytest.raises(ValueError, match=r"one of y, yes, .* is expected, not 'maybe'"):
        str2bool("maybe")
    moment = datetime(2020, 9, 13, 12, 26, 40, 5, UTC)
    assert convert_utc_datetime_to_microseconds(moment) == START * 10**6 + 5
    assert us_since_epoch_to_human_readable_time(START * 10**6 + 5) == "2020-09-13T12:26:40:000005"
    system = f"/job/profiler-output/system/incremental/2020091312/{START}.algo-2.json"
    assert get_node_id_from_system_profiler_filename(system) == "algo-2"
    assert get_utctimestamp_us_since_epoch_from_system_profiler_file(system) == START * 10**6
    assert not validate_system_profiler_file("/job/other.json")
    assert is_valid_tracefilename("/job/framework/pevents/2020091312/1600000000000000_17-algo-1_pythontimeline.json")
