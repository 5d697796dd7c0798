"""kill -9 of trainings in every framework, and of judges: nothing wrong, nothing missing inside, verdicts equal.

A few by default; ``LEADLINE_KILLS=200`` kills 200 trainings of all frameworks together, and 200 judges.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from launching import LEADLINE, MXNET, PATIENCE, arguments, descendants, environment, losses, script, wait_for

import leadline
from leadline.errors import LeadlineError
from leadline.store.run_state import read_rule_summary

KILLS = int(os.environ.get("LEADLINE_KILLS", "0"))
SEED = 11
VENVS = Path(MXNET).parents[2]
PYTHONS = {
    "torch": sys.executable,
    **{name: str(VENVS / name / "bin" / "python") for name in ("tensorflow", "jax", "mxnet")},
}
pytestmark = pytest.mark.slow


@contextmanager
def training(
    folder: Path, framework: str, *options: str, words: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Start a training under ``leadline run``, which prints the loss of each step into ``told.txt``."""
    folder.mkdir()
    python = PYTHONS[framework]
    command = [
        python,
        *LEADLINE[1:],
        "run",
        "--out",
        "runs",
        "--name",
        "run",
        *options,
        "--",
        python,
        script("endless.py"),
    ]
    with (folder / "told.txt").open("w") as told, (folder / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [*command, framework, *words],
            cwd=folder,
            env=environment(),
            stdout=told,
            stderr=said,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def told(folder: Path) -> dict[int, float]:
    """Return the losses that a training printed, by step."""
    lines = [line.split() for line in (folder / "told.txt").read_text().splitlines()]
    return {int(line[0]): float(line[1]) for line in lines if len(line) == 2 and line[0].isdecimal()}


def kill_training(folder: Path, framework: str, seconds: float) -> tuple[int, int]:
    """Kill a training some time after its first steps; return its number of steps, and how many of them are missing."""
    options = ("--no-default-rules", "--budget", "off", "--capture", "losses:every=1")
    with training(folder, framework, *options) as process:
        wait_for(lambda: len(told(folder)) > 5, "the first steps")
        time.sleep(seconds)
        job = wait_for(lambda: job_of(folder), "the training")
        os.kill(job, signal.SIGKILL)
        assert process.wait(PATIENCE) == 128 + signal.SIGKILL, (folder / "said.txt").read_text()
    run, expected = leadline.open_run(folder / "runs" / "run"), told(folder)
    assert run.verify() == []
    found = losses(run) if run.tensor_names(collection="losses") else {}
    assert list(found) == list(range(len(found))), "none is missing inside, none is there twice"
    wrong = {
        step: (loss, expected[step])
        for step, loss in found.items()
        if step in expected and not near(loss, expected[step])
    }
    assert wrong == {}
    return len(expected), max(0, len(expected) - len(found))


def near(loss: float, other: float) -> bool:
    return math.isclose(loss, other, rel_tol=1e-6) or (math.isnan(loss) and math.isnan(other))


def job_of(folder: Path) -> int | None:
    try:
        return leadline.open_run(folder / "runs" / "run").status_document.job_pid
    except LeadlineError:
        return None


@pytest.mark.parametrize("framework", list(PYTHONS))
def test_trainings_are_killed(tmp_path: Path, framework: str, capsys: pytest.CaptureFixture[str]) -> None:
    kills, generator = max(KILLS // len(PYTHONS), 2), random.Random(f"{SEED} {framework}")
    moments = [(tmp_path / str(number), framework, generator.uniform(0.0, 1.5)) for number in range(kills)]
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda each: kill_training(*each), moments))
    with capsys.disabled():
        steps, missing = map(sum, zip(*ended, strict=True))
        print(f"\n{framework}: {kills} trainings killed, {steps} steps, none wrong; {missing} not flushed at the end")


NAN_AT = 400
RULES = ("exploding_tensor", "loss_not_decreasing", "nonfinite_origin")


def verdicts(folder: Path) -> dict[str, tuple[str, int | None]]:
    """Return status and first step of each rule."""
    summary = read_rule_summary(str(folder / "runs" / "run"))
    assert summary is not None
    assert summary.complete
    return {rule.name: (rule.status, rule.step if rule.findings else None) for rule in summary.rules}


def judge_is_killed(folder: Path, moments: tuple[float, ...]) -> tuple[int, dict[str, tuple[str, int | None]]]:
    """Train with rules, kill the judge some times meanwhile; return how often it was there, and the verdicts."""
    options = [word for name in RULES for word in ("--rule", name)]
    killed = 0
    with training(
        folder, "torch", *options, words=("--steps", "500", "--nan-at", str(NAN_AT), "--pause", "0.004")
    ) as process:
        wait_for(lambda: told(folder), "the first step")
        for seconds in moments:
            time.sleep(seconds)
            for pid in judges(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        assert process.wait(PATIENCE) == 0, (folder / "said.txt").read_text()
    run = leadline.open_run(folder / "runs" / "run")
    assert run.verify() == []
    assert {step: near(loss, told(folder)[step]) for step, loss in losses(run).items()} == dict.fromkeys(
        range(500), True
    )
    return killed, verdicts(folder)


def judges(agent: int) -> list[int]:
    return [pid for pid in descendants(agent) if "leadline.judge" in arguments(pid)]


def test_judges_are_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kills, generator = max(KILLS, 3), random.Random(SEED)
    _, expected = judge_is_killed(tmp_path / "whole", ())
    killed = trainings = 0
    while killed < kills:
        moments = [tuple(generator.uniform(0.1, 1.0) for _ in range(3)) for _ in range(2)]
        folders = [tmp_path / f"{trainings + number}" for number in range(2)]
        with ThreadPoolExecutor(2) as pool:
            ended = list(pool.map(judge_is_killed, folders, moments))
        assert [found for _, found in ended] == [expected] * 2
        killed += sum(count for count, _ in ended)
        trainings += 2
    with capsys.disabled():
        print(f"\n{killed} judges killed in {trainings} trainings: the same verdicts in all, {expected}")
