"""Arguments, streams, signals and exit status are passed through, for every way to launch a script."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from launching import Ended, bare, environment, finish, rule, script, started, watched

from leadline.reader.checks import read_checks

pytestmark = pytest.mark.real_starts

TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", "2")


def talk(ended: Ended) -> dict[str, Any]:
    return dict(json.loads(ended.lines[-1]))


@pytest.mark.parametrize(
    ("ending", "status", "outcome"),
    [
        ("0", 0, "Completed"),
        ("3", 3, "Failed"),
        pytest.param("raise", 1, "Failed", marks=pytest.mark.slow),
        pytest.param("kill", 137, "Failed", marks=pytest.mark.slow),
    ],
)
def test_arguments_input_and_exit_status_are_passed_through(
    tmp_path: Path, ending: str, status: int, outcome: str
) -> None:
    words = ["with a space", "--preset", "it's", "", "--", "-x", "ünï"]
    ended = watched((), script("conversation.py"), ending, *words, folder=tmp_path, given="a line\nno end")
    assert ended.status == status
    assert talk(ended) == {"words": words, "given": "a line\nno end"}
    assert ("ValueError: the script's own" in ended.err) == (ending == "raise")
    said = ended.show()
    assert (said["status"], said["exit_status"]) == (outcome, status)
    assert said["steps"] == ({"train": 5} if ending != "kill" else {})  # killed before its first flush
    assert said["command"][-len(words) :] == words


def test_an_interrupt_reaches_the_handler_of_the_script_once(tmp_path: Path) -> None:
    with started((), script("interrupted.py"), folder=tmp_path) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == "ready\n"
        os.kill(running.agent, signal.SIGINT)
        ended = running.wait()
    assert (ended.status, ended.out) == (0, "interrupted 1\n")
    assert ended.show()["status"] == "Interrupted"
    assert "Traceback" not in ended.err


def test_a_sigterm_reaches_the_handler_of_the_script(tmp_path: Path) -> None:
    with started((), script("interrupted.py"), "term", folder=tmp_path) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == "ready\n"
        os.kill(running.agent, signal.SIGTERM)
        ended = running.wait()
    assert ended.status == 1
    assert "told to end" in ended.err
    assert ended.show()["status"] == "Interrupted"


@pytest.mark.parametrize(
    "way",
    ["module", pytest.param("interpreter", marks=pytest.mark.slow), pytest.param("console", marks=pytest.mark.slow)],
)
def test_every_way_to_launch_python_is_captured(tmp_path: Path, way: str) -> None:
    (tmp_path / "pkg").mkdir()
    shutil.copy(script("conversation.py"), tmp_path / "pkg" / "training.py")
    shutil.copy(script("conversation.py"), tmp_path / "own_command")
    shebang = f"#!{sys.executable}\n"
    (tmp_path / "own_command").write_text(shebang + Path(script("conversation.py")).read_text())
    (tmp_path / "own_command").chmod(0o755)
    command = {
        "module": (sys.executable, "-m", "pkg.training", "0"),
        "interpreter": (
            os.path.realpath(sys.executable) if sys.prefix == sys.base_prefix else sys.executable,
            "-X",
            "dev",
            str(tmp_path / "pkg" / "training.py"),
            "0",
        ),
        "console": (str(tmp_path / "own_command"), "0"),
    }[way]
    ended = watched((), *command, folder=tmp_path)
    assert ended.status == 0, ended.err
    assert ended.show()["steps"] == {"train": 5}
    assert any("watching Linear (2 parameters, SGD)" in line for line in ended.said)


@pytest.mark.slow
def test_a_script_that_checks_for_torch_before_importing_it_is_captured(tmp_path: Path) -> None:
    ended = watched((), script("asking_first.py"), folder=tmp_path)
    assert ended.status == 0, ended.err
    assert ended.show()["steps"] == {"train": 3}


def test_a_command_without_python_is_monitored(tmp_path: Path) -> None:
    ended = watched((), "sh", "-c", "echo out; echo err >&2; sleep 1; exit 4", folder=tmp_path)
    assert (ended.status, ended.out) == (4, "out\n")
    assert "err\n" in ended.err
    said = ended.show()
    assert (said["status"], said["exit_status"], said["workers"], said["steps"]) == ("Failed", 4, [], {})
    assert any("Failed with exit status 4 before the first step" in line for line in ended.said)
    metrics = ended.run.system_metrics().to_pylist()
    assert any(row["kind"] == "cpu" for row in metrics)


def test_an_isolated_python_is_only_monitored_and_reported_first(tmp_path: Path) -> None:
    ended = watched((), sys.executable, "-I", script("conversation.py"), "0", folder=tmp_path)
    assert ended.status == 0
    assert talk(ended)["words"] == []
    assert "system metrics only: Python's option -I keeps Leadline out" in ended.said[0]
    assert ended.show()["workers"] == []


@pytest.mark.slow
def test_all_ranks_stop_together(tmp_path: Path) -> None:
    ended = watched(
        ("--on", "exploding_tensor=stop_training"), *TORCHRUN, script("distributed.py"), "40", folder=tmp_path
    )
    assert ended.status == 10, ended.err
    said = ended.show()
    assert (said["status"], said["stopped_by"]) == ("Stopped", "rule:exploding_tensor")
    assert sorted(worker["worker"].split("-")[0] for worker in said["workers"]) == ["rank0", "rank1"]
    finding = rule(said, "exploding_tensor")["findings"][0]
    assert (finding["step"], finding["tensors"][0]) == (40, "loss")
    taken = [json.loads(path.read_text()) for path in Path(ended.run.path, "control", "acks").iterdir()]
    assert len(taken) == 2
    assert {(acknowledgement["outcome"], acknowledgement["step"]) for acknowledgement in taken} == {
        ("taken", said["actions"][0]["step"])
    }
    assert {worker["step"] for worker in said["workers"]} == {said["actions"][0]["step"]}


@pytest.mark.slow
def test_a_healthy_distributed_training_that_is_checked_stays_bit_identical(tmp_path: Path) -> None:
    ended = watched(("--check",), *TORCHRUN, script("distributed.py"), "-1", folder=tmp_path)
    assert ended.status == 0, ended.err
    run = ended.run
    digests = {(tmp_path / f"digest-{rank}").read_text() for rank in (0, 1)}
    alone = bare("distributed.py", "alone", folder=tmp_path)
    assert digests == {alone.lines[-1]}
    assert ended.show()["steps"] == {"train": 60}
    assert set(run.tensor_names(collection="weights")) == {"0.weight", "2.weight"}
    assert len(run.workers()) == 2
    first, second = (run.tensor("gradient/0.weight").statistic("l2", 50, worker=worker) for worker in run.workers())
    assert first == second
    checked = read_checks(run.path)
    assert set(checked) == set(run.workers())
    outcomes = {result.probe: result.outcome for results in checked.values() for result in results}
    assert (outcomes["mixed_samples"], outcomes["unlearnable_batch"]) == ("passed", "passed")
    assert "failed" not in outcomes.values()


def test_a_module_is_run_as_python_runs_it(tmp_path: Path) -> None:
    package = tmp_path / "birdcall"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "data.py").write_text("import torch\nX = torch.ones(4, 3)\n")
    (package / "train.py").write_text(
        "import sys\nimport torch\nfrom .data import X\nmodel = torch.nn.Linear(3, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(5):\n    model(X).sum().backward()\n    optimizer.step()\n"
        "print(__name__, __package__, sys.argv[1:], sys.path[0] == sys.argv[2])\n"
    )
    words = ("birdcall.train", "--config", str(tmp_path))
    without = finish([sys.executable, "-m", *words], tmp_path, env=environment())
    ended = watched(("-m",), *words, folder=tmp_path)
    assert (ended.status, ended.out) == (0, without.out) == (0, f"__main__ birdcall {list(words[1:])} True\n")
    assert ended.run.name.startswith("birdcall.train-")
    assert ended.show()["steps"] == {"train": 5}


@pytest.mark.parametrize(
    ("end", "said", "steps"),
    [
        ("raise ValueError('no such bird')", "ValueError: no such bird", 5),
        ("sys.exit('no such bird')", "", 0),
        (
            "import atexit, json; atexit.register(json.dumps, {'loss': 1}); 1 / 0",
            "ZeroDivisionError: division by zero",
            0,
        ),
    ],
)
def test_how_a_script_fails_is_printed_as_without_leadline(tmp_path: Path, end: str, said: str, steps: int) -> None:
    """The interpreter writes a traceback without a frame of Python, which a forked process would have."""
    (tmp_path / "train.py").write_text(
        "import sys, torch\nmodel = torch.nn.Linear(3, 1)\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        f"for _ in range({steps}):\n    model(torch.ones(4, 3)).sum().backward()\n    optimizer.step()\n{end}\n"
    )
    without = finish([sys.executable, "train.py"], tmp_path, env=environment())
    ended = watched((), sys.executable, "train.py", folder=tmp_path)
    assert (ended.status, without.status) == (1, 1)
    assert without.err in ended.err
    place = f"at step {steps}" if steps else "before the first step"
    assert f"Failed with exit status 1 {place}" + (f": {said}" if said else "") in ended.show()["outcome"]["text"]
