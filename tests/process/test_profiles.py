"""Profile windows of real jobs, requested before the start or while running; the training is unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from launching import LEADLINE, PATIENCE, bare, environment, only_run, script, started, wait_for, watched

from leadline.reader.run import Run

STEPS = "40"


def read(folder: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{name}.json").read_text()))


def check_unchanged(
    found: dict[str, Any], expected: dict[str, Any], *, is_end_recorded: bool = False, hooks: int = 0
) -> None:
    for what in ("digest", "losses", "random"):
        assert found[what] == expected[what]
    assert (found["hooks"], found["profile"]) == (hooks, is_end_recorded)


def call(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LEADLINE, *words],
        cwd=root,
        env=environment(LEADLINE_ROOT=str(root / "runs")),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def windows(run: Run) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in run.profiles().to_pylist()}


def modules(run: Run, **given: Any) -> set[str]:
    return set(run.operators(("module",), **given)["module"].to_pylist())


@pytest.mark.slow
def test_every_kind_of_window_requested_before_the_start(tmp_path: Path) -> None:
    """Windows at process start and end, at Debugger's default steps, and with pyinstrument."""
    without = bare("profiled.py", "bare", STEPS, folder=tmp_path)
    asked = ("default", "cprofile:at=start", "cprofile:at=end", "pyinstrument:at=20,for=2", "detailed:at=30,for=2")
    options = [word for option in asked for word in ("--profile", option)]
    ended = watched(options, script("profiled.py"), "watched", STEPS, folder=tmp_path)
    assert (without.status, ended.status) == (0, 0), ended.err
    # the hook waits for step 40, at which labels are due
    check_unchanged(read(tmp_path, "watched"), read(tmp_path, "bare"), is_end_recorded=True, hooks=1)
    run = ended.run
    found = windows(run)
    assert {name: (window["first_step"], window["end_step"]) for name, window in found.items()} == {
        "cprofile-total-start": (0, 0),
        "detailed-5": (5, 6),
        "dataloader-7": (7, 8),
        "cprofile-total-9": (9, 10),
        "cprofile-cpu-10": (10, 11),
        "cprofile-off_cpu-11": (11, 12),
        "pyinstrument-20": (20, 22),
        "detailed-30": (30, 32),
        "cprofile-total-end": (40, 40),
    }
    assert not any("kineto" in line.lower() or "USDT" in line for line in ended.err.splitlines())
    check_operators(run)
    check_functions(run)
    assert {"wait", "fetch"} <= set(run.data_loading()["event"].to_pylist())


def check_operators(run: Run) -> None:
    backward = run.operators(phase="backward", window="detailed-30")
    rows = {(row["operator"], row["module"]): row["calls"] for row in backward.to_pylist()}
    assert rows["aten::native_batch_norm_backward", "layer1.0.bn1"] == 2
    assert backward["cumulative_share"].to_pylist()[-1] == pytest.approx(1.0)
    steps = run.operator_calls(window="detailed-30")
    assert set(steps["step"].to_pylist()) == {30, 31}
    assert {"forward", "backward", "optimizer"} <= set(steps["phase"].to_pylist())


def check_functions(run: Run) -> None:
    start = run.python_profile(part="start")
    assert start.slices()["phase"].to_pylist() == ["start"]
    assert any("Conv2d.__init__" in name for name in start.top("calls", None)["function"].to_pylist())
    step = run.python_profile(step=9)
    assert step.slices()["phase"].to_pylist() == ["forward", "backward", "optimizer"]
    names = run.python_profile(step=9, phase="forward").top("cumulative", None)["function"].to_pylist()
    assert "Net.forward" in names
    assert "Net.forward" not in run.python_profile(step=9, phase="optimizer").top("own", None)["function"].to_pylist()
    callers = run.python_profile(step=9).callers("Block.forward")["caller_function"].to_pylist()
    assert any("_call_impl" in name for name in callers)
    assert run.python_profile(timer="cpu").slices()["step"].to_pylist() == [10] * 3
    stacks = run.python_profile(kind="pyinstrument")
    assert set(stacks.slices()["step"].to_pylist()) == {20, 21}
    assert "profiled.py" in stacks.tree()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_every_kind_of_window_requested_from_a_running_job(tmp_path: Path) -> None:
    without = bare("profiled.py", "bare", "392", folder=tmp_path)
    assert without.status == 0, without.err
    with started((), script("profiled.py"), "watched", "392", "10", folder=tmp_path) as job:
        wait_for((tmp_path / "watched.waits").exists, "step 10")
        said = call(tmp_path, "profile", "--detailed", "--python", "cprofile:cpu", "--dataloader", "--for", "2")
        assert said.returncode == 0, said.stdout + said.stderr
        assert ": detailed" in said.stdout
        assert "; cprofile (cpu)" in said.stdout
        again = call(tmp_path, "profile", "--python", "pyinstrument", "--for", "2")
        past = call(tmp_path, "profile", "--at", "3")
        (tmp_path / "watched.go").touch()
        ended = job.wait()
    assert again.returncode == 0, again.stdout
    assert (past.returncode, "step 3 has begun already" in past.stdout) == (1, True)
    assert ended.status == 0, ended.err
    check_unchanged(read(tmp_path, "watched"), read(tmp_path, "bare"))
    found = windows(ended.run)
    assert sorted(window["kind"] for window in found.values()) == ["cprofile", "dataloader", "detailed", "pyinstrument"]
    assert all(window["end_step"] - window["first_step"] == 2 for window in found.values())
    assert {"layer1.0.bn1", "head"} <= modules(ended.run)
    answers = [json.loads(path.read_text()) for path in (Path(ended.run.path) / "control" / "acks").glob("*.json")]
    assert len(answers) == 3


@pytest.mark.slow
def test_profile_windows_release_their_memory(tmp_path: Path) -> None:
    """The first windows load libraries; a later one keeps nothing once it is written.

    A window of operators keeps about 7 MB until then. Windows that wait for others follow each other directly.
    """
    requests = [f"detailed:at={at},for=9" for at in range(10, 130, 10)]
    requests += [f"cprofile:at={at},for=2" for at in range(15, 135, 10)]
    options = [word for request in requests for word in ("--profile", request)]
    ended = watched(options, script("profiled.py"), "watched", "160", "1000000", "--paced", folder=tmp_path)
    assert ended.status == 0, ended.err
    assert len(windows(ended.run)) == 24
    memory = read(tmp_path, "watched")["memory"]
    assert memory[155] - memory[45] < 8 << 20


@pytest.mark.slow
def test_each_rank_records_its_own_windows(tmp_path: Path) -> None:
    job = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    given = ("--profile", "detailed:at=5,for=2", "--profile", "cprofile:at=9", "--profile", "cprofile:at=start")
    ended = watched(given, *job, script("profiled.py"), "watched", "20", "1000", "--ranks", folder=tmp_path)
    assert ended.status == 0, ended.err
    run = ended.run
    assert len(set(run.profiles()["worker"].to_pylist())) == 2
    assert sorted(run.profiles()["id"].to_pylist()) == sorted(
        ["detailed-5", "cprofile-total-9", "cprofile-total-start"] * 2
    )
    for worker in run.workers():
        calls = run.operator_calls(worker=worker)
        assert set(calls["step"].to_pylist()) == {5, 6}
        assert pc.sum(pc.equal(calls["module"], "layer1.0.bn1")).as_py() > 0


@pytest.mark.slow
def test_operators_before_the_first_step(tmp_path: Path) -> None:
    given = ("--profile", "detailed:at=start", "--profile", "detailed:at=5", "--rule", "operator_time")
    ended = watched(given, script("profiled.py"), "watched", "20", "1000", folder=tmp_path)
    assert ended.status == 0, ended.err
    calls = ended.run.operators(("operator", "mode", "phase"), window="detailed-start").to_pylist()
    assert {call["mode"] for call in calls} == {"start"}
    assert "initialization" in {call["phase"] for call in calls}
    assert any(call["operator"].startswith("aten::") for call in calls)  # such as the initialization of weights
    assert {call["mode"] for call in ended.run.operators(("mode",), window="detailed-5").to_pylist()} == {"train"}


@pytest.mark.slow
def test_a_script_that_profiles_itself_comes_first(tmp_path: Path) -> None:
    """PyTorch has one session, and crashes if a second one begins."""
    given = ("--profile", "detailed:at=start", "--profile", "detailed:at=4,for=3")
    ended = watched(given, script("own_profiler.py"), folder=tmp_path)
    assert (ended.status, "trained" in ended.out) == (0, True), ended.err
    told = "recorded until the script started torch.profiler"
    assert {name: window["notes"] for name, window in windows(ended.run).items()} == {
        "detailed-start": [told],
        "detailed-4": [told],
    }
    calls = ended.run.operators(("operator", "phase"), window="detailed-start").to_pylist()
    assert ("aten::normal_", "initialization") in {(call["operator"], call["phase"]) for call in calls}
    assert "aten::sum" not in {call["operator"] for call in calls}


@pytest.mark.slow
def test_a_compiled_model_is_profiled_without_recompilation(tmp_path: Path) -> None:
    without = bare("profiled.py", "bare", STEPS, "1000", "--compile", folder=tmp_path)
    ended = watched(
        ("--profile", "detailed:at=0,for=1", "--profile", "detailed:at=20,for=2", "--profile", "cprofile:at=30"),
        script("profiled.py"),
        "watched",
        STEPS,
        "1000",
        "--compile",
        folder=tmp_path,
    )
    assert (without.status, ended.status) == (0, 0), ended.err
    check_unchanged(read(tmp_path, "watched"), read(tmp_path, "bare"))
    found = windows(ended.run)
    assert found["detailed-20"]["notes"] == ["operators of compiled code have no module"]
    calls = ended.run.operators(("operator", "phase"), window="detailed-20").to_pylist()
    assert {"forward", "backward", "optimizer"} <= {call["phase"] for call in calls}
    assert "aten::native_batch_norm_backward" in {call["operator"] for call in calls}


def test_missing_profiles_are_reported(tmp_path: Path) -> None:
    ended = watched((), "true", folder=tmp_path)
    run = only_run(ended.root)
    from leadline.errors import NotCapturedError

    with pytest.raises(NotCapturedError, match="leadline profile --detailed"):
        run.operators()
    with pytest.raises(NotCapturedError, match="leadline profile --python cprofile"):
        run.python_profile()
    with pytest.raises(NotCapturedError, match="leadline profile --dataloader"):
        run.data_loading()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--profile", "detaild"), "did you mean 'detailed'?"),
        (("--profile", "detailed:at=soon"), "is not a step (120)"),
    ],
)
def test_an_invalid_profile_option_is_refused_before_the_start(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ended = watched(words, "true", folder=tmp_path)
    assert ended.status == 2
    assert said in ended.err
    assert not (tmp_path / "runs").exists()
