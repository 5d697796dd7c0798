"""``leadline doctor`` with real trainings: its report, and that no data is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, PATIENCE, environment, script, wait_for

from leadline.monitor.processes import identify
from leadline.records.names import PRESETS

TREES = str(Path(__file__).parents[2] / ".venvs" / "trees" / "bin" / "python")
TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")


def doctor(
    folder: Path, *arguments: str, python: str = sys.executable, **changes: str
) -> subprocess.CompletedProcess[str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.run(
        [python, *LEADLINE[1:], "doctor", *arguments],
        cwd=folder,
        env=environment(TMPDIR=str(folder / "tmp"), **changes),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def examined(folder: Path, *arguments: str, status: int = 0, **changes: str) -> dict[str, Any]:
    done = doctor(folder, "--json", *arguments, **changes)
    assert done.returncode == status, (done.stdout, done.stderr)
    assert list((folder / "tmp").glob("leadline*")) == []
    assert not (folder / "leadline-runs").exists()
    report = json.loads(done.stdout)
    return {**report, "err": done.stderr}


def coverage_gaps(report: dict[str, Any]) -> dict[str, str]:
    return {gap["what"]: gap["why"] for gap in report["training"]["uncovered"]}


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in report["checks"]}


@pytest.mark.slow
def test_report_of_three_steps_of_a_training(tmp_path: Path) -> None:
    report = examined(tmp_path, "--steps", "3", "--", script("patient.py"), "plain")
    assert outcomes(report) | {"GPU": "ok", "disk": "ok", "cgroup": "note"} == {
        "python": "ok",
        "leadline": "ok",
        "numpy": "ok",
        "torch": "ok",
        "GPU": "ok",
        "disk": "ok",
        "cgroup": "note",
    }
    training = report["training"]
    assert training["models"] == [
        {
            "name": "Net",
            "wrapper": None,
            "parameters": 163,
            "trainable": 163,
            "tensors": 4,
            "dtypes": ["float32"],
            "devices": ["cpu"],
        }
    ]
    assert training["optimizers"] == [
        {"name": "AdamW", "parameters": 163, "groups": 1, "variables": ["exp_avg", "exp_avg_sq", "step"]}
    ]
    (loss,) = training["losses"]
    assert loss["name"] == "CrossEntropyLoss_output_0"
    assert loss["place"].rpartition("/")[2].startswith("patient.py:")
    assert training["steps"] == {"train": 3, "eval": 1}
    assert training["activations"]["linear"] >= 2
    assert {"relu", "tanh", "crossentropyloss"} <= set(training["activations"])
    assert training["functions"] == ["tanh"]
    assert {name: training["captured"][name] for name in ("weights", "biases", "gradients")} == {
        "weights": 2,
        "biases": 2,
        "gradients": 4,
    }
    assert coverage_gaps(report) == {}
    assert (training["stopped_by"], training["exit_status"]) == ("doctor", 10)
    assert "came to its end" not in report["err"]


@pytest.mark.slow
def test_overhead_of_each_preset_and_rule_set(tmp_path: Path) -> None:
    report = examined(tmp_path, "--steps", "5", "--", script("patient.py"), "functional")
    training = report["training"]
    prices = {price["label"]: price for price in training["prices"]}
    sets = ("default rules", "default rules, acting", "all rules")
    assert list(prices) == [*(f"preset {name}" for name in PRESETS), *(f"standard + {name}" for name in sets)]
    assert all(price["step_share"] > 0 for price in prices.values())
    every = {name: prices[f"preset {name}"]["capture_every"] for name in PRESETS}
    assert every == {"light": 100, "standard": 10, "full": 10, "sagemaker": None}  # standard captures the gradient norm
    assert prices["standard + default rules, acting"]["capture_every"] == 1
    stored = {name: prices[f"preset {name}"]["bytes_per_1000_steps"] for name in PRESETS}
    assert 0 == stored["sagemaker"] < stored["light"] < stored["standard"] < stored["full"]
    assert prices["preset full"]["capture_bytes"] > 2 * 163 * 4  # raw weights and gradients
    assert prices["preset light"]["activations_every"] is None or prices["preset light"]["activations_seconds"] == 0
    assert prices["preset standard"]["activations_every"] == 500
    assert training["step_seconds"] > 0
    assert prices["preset light"]["budget"] < prices["preset standard"]["budget"]
    for price in prices.values():
        assert price["step_share"] <= price["step_share_without_budget"]
    assert training["losses"][0]["name"] == "cross_entropy_output_0"
    assert training["steps"] == {"train": 5}


@pytest.mark.slow
def test_the_report_page_is_written(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--steps", "3", "--", script("patient.py"), "frozen", COLUMNS="160")
    assert done.returncode == 0, done.stderr
    for part in (
        "captured",
        "Net: 163 parameters, 51 trainable",
        "AdamW: 51 parameters, 1 group",
        "not captured",
        "overhead",
        "preset standard",
        "standard + all rules",
        "(median of 2 steps)",
        "once, at the start",
        "rough: only 2 steps measured",
    ):
        assert part in done.stdout, done.stdout
    assert "leadline  " not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "what", "why"),
    [
        ("compiled", "torch.compile of Net", "activations are not"),
        ("scripted", "torch.jit.script of Net", "activations are not"),
    ],
)
def test_partially_captured_models_are_reported(tmp_path: Path, kind: str, what: str, why: str) -> None:
    report = examined(tmp_path, "--", script("patient.py"), kind)
    assert why in coverage_gaps(report)[what]
    assert report["training"]["captured"]["gradients"] == 4
    assert "global hooks" not in report["err"]  # PyTorch warns about these
    if kind == "compiled":
        assert report["training"]["activations"] == {"crossentropy": 1, "net": 1}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["manual", "replaced"])
def test_a_training_without_optimizer_steps_is_examined_and_stopped(tmp_path: Path, kind: str) -> None:
    report = examined(tmp_path, "--", script("patient.py"), kind)
    assert [optimizer["name"] for optimizer in report["training"]["optimizers"]] == ["ManualUpdates"]
    assert "AdamW" in coverage_gaps(report)
    assert "came to its end" not in report["err"]


@pytest.mark.slow
def test_a_training_of_one_step_has_no_overhead_estimate(tmp_path: Path) -> None:
    report = examined(tmp_path, "--", script("patient.py"), "short")
    assert report["training"]["steps"] == {"train": 1}
    assert report["training"]["models"][0]["name"] == "Net"
    assert (report["training"]["prices"], report["training"]["exit_status"]) == ([], 0)
    assert "came to its end" in report["err"]


@pytest.mark.slow
def test_a_script_that_ignores_the_stop_is_ended_by_signals(tmp_path: Path) -> None:
    report = examined(tmp_path, "--", script("patient.py"), "stubborn")
    assert report["training"]["steps"]["train"] >= 3
    assert "came to its end" not in report["err"]


@pytest.mark.slow
def test_a_command_without_training_is_ended_at_the_time_limit(tmp_path: Path) -> None:
    report = examined(tmp_path, "--limit", "1.5", "--", sys.executable, "-c", "import time; time.sleep(600)", status=1)
    assert set(coverage_gaps(report)) == {"no training was seen", "0 steps in 1.5 s"}


@pytest.mark.slow
def test_a_terminated_doctor_terminates_the_training(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    sleeper = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    process = subprocess.Popen(
        [*LEADLINE, "doctor", "--", sys.executable, "-c", sleeper],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        env=environment(TMPDIR=str(tmp_path / "tmp")),
    )
    pid = int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the command"))
    process.terminate()
    assert process.wait(PATIENCE) == 143
    wait_for(lambda: identify(pid) is None, "the end of the command")
    assert list((tmp_path / "tmp").glob("leadline*")) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "model"), [("binary", "Booster"), ("lightgbm_binary", "Booster")])
def test_boosters_are_examined_and_stopped(tmp_path: Path, kind: str, model: str) -> None:
    arguments = ("--", TREES, script("boosters.py"), str(tmp_path), "endless", kind)
    report = examined(tmp_path, "--python", TREES, *arguments)
    training = report["training"]
    assert [model["name"] for model in training["models"]] == [model]
    assert 3 <= training["steps"]["train"] <= 50
    assert {loss["name"].partition("-")[0] for loss in training["losses"]} == {"train", "held"}
    assert training["captured"]["feature_importance"] > 6
    assert all(price["step_share"] > 0 for price in training["prices"])
    page = doctor(tmp_path, *arguments, python=TREES)  # of its own environment
    assert page.returncode == 0, page.stderr
    assert "importances," in page.stdout
    assert "gradients" not in page.stdout


@pytest.mark.slow
def test_both_ranks_are_examined_and_stop_together(tmp_path: Path) -> None:
    report = examined(tmp_path, "--", *TORCHRUN, script("distributed.py"), "-1")
    training = report["training"]
    assert (training["processes"], training["stopped_by"]) == (2, "doctor")
    assert training["models"][0]["wrapper"] in ("DistributedDataParallel", None)
    assert len(training["prices"]) == 7


def test_an_isolated_interpreter_is_not_started(tmp_path: Path) -> None:
    report = examined(tmp_path, "--", sys.executable, "-I", script("patient.py"), "plain", status=1)
    assert outcomes(report)["isolation"] == "bad"
    assert report["training"] is None


def test_an_interpreter_without_leadline_gets_an_install_command(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=PATIENCE)
    python = str(bare / "bin" / "python")
    report = examined(tmp_path, "--python", python, status=1)
    (problem,) = [check["message"] for check in report["checks"] if check["name"] == "leadline"]
    assert f"{python} -m pip install leadline" in problem
    assert outcomes(report)["torch"] == "note"


def test_without_a_command_only_the_environment_is_checked(tmp_path: Path) -> None:
    other = tmp_path / "lib" / "python3.4" / "site-packages"
    other.mkdir(parents=True)
    (other / "sitecustomize.py").write_text("")
    done = doctor(tmp_path, PYTHONPATH=str(other), LEADLINE_DISABLED="1")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "].count("bad") == 0
    for part in ("belongs to Python 3.4", "runs after Leadline's", "nothing is captured; unset it", "hooks work"):
        assert part in " ".join(done.stdout.split())


def test_a_read_only_root_is_bad(tmp_path: Path) -> None:
    report = examined(tmp_path, "--out", "/proc/runs", status=1)
    (problem,) = [check["message"] for check in report["checks"] if check["name"] == "disk"]
    assert problem.startswith("cannot write to /proc: ")
