"""System metrics, timelines and Python profiles that smdebug wrote."""

from __future__ import annotations

import json
import marshal
import pstats
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import leadline
from leadline.reader.run import Run
from leadline.trials.importer import import_trial

DATA = Path(__file__).parents[2] / "data" / "smdebug"
TIMELINE = "framework/pevents/2026112008/1795162489369443_18612-vm_pythontimeline.json"
PROFILES = DATA / "prof/framework/pytorch/cprofile/18612-vm"
START_NS = 1795162484222346_000
CopyOf = Callable[[str], Path]


@pytest.fixture
def prof(tmp_path: Path) -> Run:
    imported = import_trial(DATA / "prof", tmp_path / "prof_run")
    assert imported.damage == []
    assert (imported.workers, imported.events, imported.profiles) == (1, 30, 1)
    return leadline.open_run(tmp_path / "prof_run")


def test_steps_and_phases_of_a_timeline(prof: Run) -> None:
    rows = prof.timeline().to_pylist()
    steps = [row for row in rows if row["name"] == "step"]
    assert [row["step"] for row in steps] == [0, 1, 2, 3, 4]
    assert [row["duration_ns"] for row in steps] == [61698_000, 5820_000, 15446_000, 10213_000, 7689_000]
    assert steps[0]["start_ns"] == START_NS + 4977610_000
    assert {row["phase"] for row in steps} == {"train"}  # the script set no mode
    (document,) = prof.worker_documents().values()
    assert (document.steps, document.step) == ({"train": 5}, 4)
    forward = [row for row in rows if row["name"] == "forward"]
    assert [row["duration_ns"] for row in forward] == [61672_000, 5814_000, 15441_000, 10193_000, 7684_000]
    others = [row for row in rows if row["name"] == "Forward-SubModuleInternal"]
    assert len(others) == 20
    assert {json.loads(row["args"])["event"] for row in others} == {"0", "1", "2", "Sequential"}


def test_python_profiles_equal_those_of_pstats(prof: Run) -> None:
    """The independent truth is Python's own reader of these files."""
    (window,) = prof.profiles().to_pylist()
    assert (window["kind"], window["part"], window["first_step"], window["end_step"]) == ("cprofile", "loop", 2, 3)
    files = [pstats.Stats(str(folder / "python_stats")) for folder in PROFILES.iterdir()]
    expected: dict[tuple[str, str, int], list[float]] = {}
    for file in files:
        for (path, line, name), (primitive, calls, own, cumulative, _) in file.stats.items():  # type: ignore[attr-defined]
            key = (name, "" if path == "~" else path, 0 if path == "~" else line)
            sums = expected.setdefault(key, [0, 0, 0, 0])
            for index, value in enumerate((calls, primitive, round(own * 1e9), round(cumulative * 1e9))):
                sums[index] += value
    profile = prof.python_profile()
    found = {
        (row["function"], row["file"], row["line"]): [
            row[name] for name in ("calls", "primitive_calls", "own_ns", "cumulative_ns")
        ]
        for row in profile.top(limit=None).to_pylist()
    }
    assert found == expected
    assert profile.slices()["phase"].to_pylist() == ["forward", "backward"]
    callers = {row["caller_function"] for row in profile.callers("run_backward").to_pylist()}
    known = {
        caller[2]
        for file in files
        for (_, _, name), (*_, of) in file.stats.items()  # type: ignore[attr-defined]
        if name == "run_backward"
        for caller in of
    }
    assert callers == known


def test_start_and_end_of_the_process(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("prof")
    folder = trial / "framework/pytorch/cprofile/18612-vm"
    one = next(PROFILES.iterdir())
    shutil.copytree(one, folder / "prestepzero-*-start-1795162484216676.0_global-0-stepstart-1795162489200244.0")
    shutil.copytree(one, folder / "prestepzero-*-end-1795162489378501.2_posthookclose-*-end-1795162489379638.0")
    import_trial(trial, tmp_path / "run")
    windows = leadline.open_run(tmp_path / "run").profiles()
    assert windows["part"].to_pylist() == ["start", "loop", "end"]


def test_damaged_profiles(copy_of: CopyOf, tmp_path: Path) -> None:
    trial = copy_of("prof")
    (first, second) = sorted((trial / "framework/pytorch/cprofile/18612-vm").iterdir())
    (first / "python_stats").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    second.rename(second.with_name("unknown"))
    (trial / TIMELINE).write_text((trial / TIMELINE).read_text()[:-3])
    (trial / "system/incremental/2026112008").mkdir(parents=True)
    sample = {"Type": "cpu", "Name": "cpu0", "Dimension": "CPUUtilization", "Value": 1.0, "NodeId": "algo-1"}
    lines = [json.dumps(sample | {"Timestamp": 1795162484.5}), json.dumps(sample)[:20], json.dumps(sample)]
    (trial / "system/incremental/2026112008/1795162440.algo-1.json").write_text("\n".join(lines))
    damage = import_trial(trial, tmp_path / "run").damage
    assert damage[0] == (
        "system/incremental/2026112008/1795162440.algo-1.json is damaged at line 2: not JSON at byte 20; "
        "2 lines left out"
    )
    assert damage[1].startswith(f"{TIMELINE} cannot be read (not JSON at byte ")
    assert "python_stats cannot be read (it contains a value of type b'c' at byte 0); left out" in damage[2]
    assert "python_stats cannot be read (its folder is not named <mode>-<step>-<phase>-<time>" in damage[3]
    assert len(damage) == 4


def test_system_metrics(tmp_path: Path) -> None:
    hour = tmp_path / "job/profiler-output/system/incremental/2020060304"
    hour.mkdir(parents=True)
    rows = [
        ("cpu", "cpu0", "CPUUtilization", 4.0),
        ("cpu", "cpu1", "CPUUtilization", 8.0),
        ("gpu", "gpu0", "GPUUtilization", 55.0),
        ("gpu", "gpu0", "GPUMemoryUtilization", 12.5),
        ("memory", "MemoryUsedPercent", "MemoryUsedPercent", 31.0),
        ("network", None, "Network", 7.0),
    ]
    for node in ("algo-1", "algo-2"):
        entries = [
            {"Type": kind, "Dimension": dimension, "Value": value, "NodeId": node, "Timestamp": 1591160699.5 + second}
            | ({"Name": name} if name else {})
            for second in range(3)
            for kind, name, dimension, value in rows
        ]
        (hour / f"1591160640.{node}.json").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    imported = import_trial(tmp_path / "job", tmp_path / "run")
    assert (imported.nodes, imported.damage) == (2, [])
    run = leadline.open_run(tmp_path / "run")
    found = {
        (row["node"], row["kind"], row["device"], row["metric"]): row["value"]
        for row in run.system_metrics().to_pylist()
    }
    of_node = {
        ("cpu", "core0", "utilization_percent"): 4.0,
        ("cpu", "core1", "utilization_percent"): 8.0,
        ("cpu", "total", "utilization_percent"): 6.0,
        ("gpu", "gpu0", "utilization_percent"): 55.0,
        ("gpu", "gpu0", "memory_used_percent"): 12.5,
        ("memory", "total", "used_percent"): 31.0,
        ("network", "total", "Network"): 7.0,
    }
    assert found == {(node, *channel): value for node in ("algo-1", "algo-2") for channel, value in of_node.items()}
    assert min(run.system_metrics()["time_ns"].to_pylist()) == 1591160699_500_000_000


def test_tensors_and_profiles_of_a_job(tmp_path: Path) -> None:
    """A single process of the profiles is the single worker; its steps are the saved steps."""
    shutil.copytree(DATA / "tf_tape", tmp_path / "job/debug-output")
    shutil.copytree(DATA / "prof", tmp_path / "job/profiler-output")
    timeline = tmp_path / "job/profiler-output" / TIMELINE
    timeline.write_text(timeline.read_text().replace("ModeKeys.GLOBAL", "ModeKeys.TRAIN"))
    run = leadline.open_trial(tmp_path / "job")
    assert run.workers() == ["worker_0"]
    assert set(run.timeline()["worker"].to_pylist()) == {"worker_0"}
    assert run.tensor("loss").steps() == [0, 2, 4]


def test_ends_of_horovod_events_have_no_names(tmp_path: Path) -> None:
    folder = tmp_path / "trial/framework/pevents/2020060304"
    folder.mkdir(parents=True)
    (tmp_path / "trial/framework/pevents/2020060304/1591160699000000_0-algo-1_horovod_timeline.json").write_text(
        json.dumps(
            [
                {
                    "name": "process_name",
                    "ph": "M",
                    "pid": 0,
                    "args": {"start_time_since_epoch_in_micros": 1591160600000000},
                },
                {"name": "process_name", "ph": "M", "pid": 3, "args": {"name": "gradient_0"}},
                {"name": "NEGOTIATE_ALLREDUCE", "ph": "B", "ts": 10, "pid": 3},
                {"name": "INNER", "ph": "B", "ts": 11, "pid": 3},
                {"ph": "E", "ts": 12, "pid": 3},
                {"ph": "E", "ts": 30, "pid": 3},
                {"ph": "E", "ts": 31, "pid": 3},
            ]
        )
    )
    imported = import_trial(tmp_path / "trial", tmp_path / "run")
    assert len(imported.damage) == 1
    assert "event 6: the end of '' without its begin; 1 event left out" in imported.damage[0]
    rows = leadline.open_run(tmp_path / "run").timeline().to_pylist()
    assert [(json.loads(row["args"])["event"], row["duration_ns"]) for row in rows] == [
        ("NEGOTIATE_ALLREDUCE", 20_000),
        ("INNER", 1_000),
    ]


@pytest.mark.parametrize(
    "statistics",
    [
        [1, 2],
        {("f.py", 1, "f"): (1, 1, 0.5, 0.5, {}, 6)},
        {("f.py", 1): (1, 1, 0.5, 0.5, {})},
        {("f.py", 1, "f"): (1, 1, "long", 0.5, {})},
        {("f.py", 1, "f"): (1, 1, float("inf"), 0.5, {})},
        {("f.py", 1, "f"): (1, 1, 0.5, 0.5, {("g.py", 1, "g"): (1, 1)})},
        {("f.py", 1, "f"): (1, 1, 0.5, 0.5, None)},
    ],
)
def test_values_that_are_no_statistics_are_left_out_with_their_file_alone(
    copy_of: CopyOf, tmp_path: Path, statistics: object
) -> None:
    trial = copy_of("prof")
    first, *_ = sorted((trial / "framework/pytorch/cprofile/18612-vm").iterdir())
    (first / "python_stats").write_bytes(marshal.dumps(statistics))
    imported = import_trial(trial, tmp_path / "run")
    (line,) = imported.damage
    assert "python_stats cannot be read (it does not contain statistics of functions); left out" in line
    assert imported.profiles == 1
