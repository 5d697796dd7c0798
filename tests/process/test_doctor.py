"""``leadline doctor`` with real trainings: what it says of them, and that nothing of it stays."""

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


def doctor(folder: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.run(
        [*LEADLINE, "doctor", *words],
        cwd=folder,
        env=environment(TMPDIR=str(folder / "tmp"), **changes),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def examined(folder: Path, *words: str, status: int = 0, **changes: str) -> dict[str, Any]:
    done = doctor(folder, "--json", *words, **changes)
    assert done.returncode == status, (done.stdout, done.stderr)
    assert list((folder / "tmp").glob("leadline*")) == []
    assert not (folder / "leadline-runs").exists()
    said = json.loads(done.stdout)
    return {**said, "err": done.stderr}


def uncovered(said: dict[str, Any]) -> dict[str, str]:
    return {each["what"]: each["why"] for each in said["training"]["uncovered"]}


def outcomes(said: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["outcome"] for each in said["checks"]}


def test_a_training_is_looked_at_for_three_steps_and_told_of(tmp_path: Path) -> None:
    said = examined(tmp_path, "--", script("patient.py"), "plain")
    assert outcomes(said) | {"gpu": "ok", "disk": "ok", "cgroup": "note"} == {
        "python": "ok",
        "leadline": "ok",
        "numpy": "ok",
        "torch": "ok",
        "gpu": "ok",
        "disk": "ok",
        "cgroup": "note",
    }
    found = said["training"]
    assert found["models"] == [
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
    assert found["optimizers"] == [
        {"name": "AdamW", "parameters": 163, "groups": 1, "variables": ["exp_avg", "exp_avg_sq", "step"]}
    ]
    (loss,) = found["losses"]
    assert loss["name"] == "CrossEntropyLoss_output_0"
    assert loss["place"].rpartition("/")[2].startswith("patient.py:")
    assert found["steps"] == {"train": 3, "eval": 1}
    assert found["activations"]["linear"] >= 2
    assert {"relu", "tanh", "crossentropyloss"} <= set(found["activations"])
    assert found["functions"] == ["tanh"]
    assert {name: found["captured"][name] for name in ("weights", "biases", "gradients")} == {
        "weights": 2,
        "biases": 2,
        "gradients": 4,
    }
    assert uncovered(said) == {}
    assert (found["stopped_by"], found["exit_status"]) == ("doctor", 10)
    assert "came to its end" not in said["err"]


def test_each_preset_and_rule_set_has_its_price(tmp_path: Path) -> None:
    said = examined(tmp_path, "--steps", "5", "--", script("patient.py"), "functional")
    found = said["training"]
    prices = {each["label"]: each for each in found["prices"]}
    sets = ("default rules", "default rules, acting", "all rules")
    assert list(prices) == [*(f"preset {name}" for name in PRESETS), *(f"standard + {name}" for name in sets)]
    assert all(each["step_share"] > 0 for each in prices.values())
    every = {name: prices[f"preset {name}"]["capture_every"] for name in PRESETS}
    assert every == {"light": 100, "standard": 10, "full": 10, "sagemaker": None}  # of standard the gradient norm
    assert prices["standard + default rules, acting"]["capture_every"] == 1
    stored = {name: prices[f"preset {name}"]["bytes_per_1000_steps"] for name in PRESETS}
    assert 0 == stored["sagemaker"] < stored["light"] < stored["standard"] < stored["full"]
    assert prices["preset full"]["capture_bytes"] > 2 * 163 * 4  # raw weights and gradients
    assert prices["preset light"]["activations_every"] is None or prices["preset light"]["activations_seconds"] == 0
    assert prices["preset standard"]["activations_every"] == 500
    assert found["step_seconds"] > 0
    assert found["losses"][0]["name"] == "cross_entropy_output_0"
    assert found["steps"] == {"train": 5}


def test_the_page_names_all_of_it(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--", script("patient.py"), "frozen", COLUMNS="160")
    assert done.returncode == 0, done.stderr
    for part in (
        "watched",
        "Net: 163 parameters, 51 trainable",
        "AdamW: 51 parameters, 1 group",
        "not watched",
        "what it costs",
        "preset standard",
        "standard + all rules",
        "in 3 steps",
    ):
        assert part in done.stdout, done.stdout
    assert "leadline  " not in done.stderr


@pytest.mark.parametrize(
    ("kind", "what", "why"),
    [
        ("compiled", "torch.compile of Net", "activations are not"),
        ("scripted", "torch.jit.script of Net", "its activations are not"),
    ],
)
def test_what_is_watched_in_part_is_said_so(tmp_path: Path, kind: str, what: str, why: str) -> None:
    said = examined(tmp_path, "--", script("patient.py"), kind)
    assert why in uncovered(said)[what]
    assert said["training"]["captured"]["gradients"] == 4
    assert "global hooks" not in said["err"]  # of which PyTorch would warn
    if kind == "compiled":
        assert said["training"]["activations"] == {}
        assert {each["activations_every"] for each in said["training"]["prices"]} == {None}


@pytest.mark.parametrize(
    ("kind", "what", "why"),
    [
        ("manual", "200 backward passes and no optimizer step", "manual updates"),
        ("replaced", "AdamW", "replaced on the instance"),
    ],
)
def test_a_training_whose_steps_are_not_seen_is_said_so_and_ended(
    tmp_path: Path, kind: str, what: str, why: str
) -> None:
    said = examined(tmp_path, "--", script("patient.py"), kind, status=1)
    assert why in uncovered(said)[what]
    assert said["training"]["optimizers"] == []
    assert "came to its end" not in said["err"]


def test_a_training_of_one_step_is_told_of_without_a_price(tmp_path: Path) -> None:
    said = examined(tmp_path, "--", script("patient.py"), "short")
    assert said["training"]["steps"] == {"train": 1}
    assert said["training"]["models"][0]["name"] == "Net"
    assert (said["training"]["prices"], said["training"]["exit_status"]) == ([], 0)
    assert "came to its end" in said["err"]


def test_a_script_that_swallows_the_stop_is_ended_by_signals(tmp_path: Path) -> None:
    said = examined(tmp_path, "--", script("patient.py"), "stubborn")
    assert said["training"]["steps"]["train"] >= 3
    assert "came to its end" not in said["err"]


def test_what_does_not_train_is_ended_when_the_time_is_over(tmp_path: Path) -> None:
    said = examined(tmp_path, "--limit", "1.5", "--", sys.executable, "-c", "import time; time.sleep(600)", status=1)
    assert set(uncovered(said)) == {"no training was seen", "0 steps in 1.5 s"}


def test_a_doctor_that_is_told_to_end_takes_the_training_with_it(tmp_path: Path) -> None:
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
def test_boosters_are_looked_at_and_stopped_like_others(tmp_path: Path, kind: str, model: str) -> None:
    words = ("--", TREES, script("boosters.py"), str(tmp_path), "endless", kind)
    said = examined(tmp_path, "--python", TREES, *words)
    found = said["training"]
    assert [each["name"] for each in found["models"]] == [model]
    assert found["steps"] == {"train": 3}
    assert {each["name"].partition("-")[0] for each in found["losses"]} == {"train", "held"}
    assert found["captured"]["feature_importance"] > 6
    assert all(each["step_share"] > 0 for each in found["prices"])
    page = doctor(tmp_path, "--python", TREES, *words)
    assert page.returncode == 0, page.stderr
    assert "importances," in page.stdout
    assert "gradients" not in page.stdout


def test_both_ranks_are_seen_and_stop_together(tmp_path: Path) -> None:
    said = examined(tmp_path, "--", *TORCHRUN, script("distributed.py"), "-1")
    found = said["training"]
    assert (found["processes"], found["stopped_by"]) == (2, "doctor")
    assert found["models"][0]["wrapper"] in ("DistributedDataParallel", None)
    assert len(found["prices"]) == 7


def test_an_isolated_interpreter_is_not_even_tried(tmp_path: Path) -> None:
    said = examined(tmp_path, "--", sys.executable, "-I", script("patient.py"), "plain", status=1)
    assert outcomes(said)["isolation"] == "bad"
    assert said["training"] is None


def test_an_interpreter_without_leadline_is_told_what_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=PATIENCE)
    python = str(bare / "bin" / "python")
    said = examined(tmp_path, "--python", python, status=1)
    (problem,) = [each["said"] for each in said["checks"] if each["name"] == "leadline"]
    assert f"{python} -m pip install leadline" in problem
    assert outcomes(said)["torch"] == "note"


def test_without_a_command_the_environment_alone_is_checked(tmp_path: Path) -> None:
    other = tmp_path / "lib" / "python3.4" / "site-packages"
    other.mkdir(parents=True)
    (other / "sitecustomize.py").write_text("")
    done = doctor(tmp_path, PYTHONPATH=str(other), LEADLINE_DISABLED="1")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "].count("bad") == 0
    for part in ("is of Python 3.4", "is run after Leadline's", "nothing is watched; unset it", "the hooks fit it"):
        assert part in " ".join(done.stdout.split())


def test_a_root_that_cannot_be_written_is_bad(tmp_path: Path) -> None:
    said = examined(tmp_path, "--out", "/proc/runs", status=1)
    (problem,) = [each["said"] for each in said["checks"] if each["name"] == "disk"]
    assert problem.startswith("/proc cannot be written: ")
