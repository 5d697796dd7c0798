"""Unmodified trainings with TensorFlow: bit-identical results, and captured values equal to those computed eagerly."""

from __future__ import annotations

import json
import math
import socket
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from launching import LEADLINE, ON_TENSORFLOW, PATIENCE, Ended, environment, script
from recorded import recorded

from leadline.reader.run import Run

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")
STEPS = 16
KINDS = {
    "fit": STEPS,
    "fit_xla": STEPS,
    "long": 4 * STEPS,
    "convolution": STEPS,
    "convolution_xla": STEPS,
    "subclassed": STEPS,
    "subclassed_xla": STEPS,
    "function": STEPS,
    "function_xla": STEPS,
    "eager": STEPS,
    "run_eagerly": STEPS,
    "mixed": STEPS,
    "mirrored": STEPS,
    "steps_per_execution": STEPS,
    "accumulation": STEPS // 4,
    "clipped": STEPS,
    "random": STEPS,
    "random_layer": STEPS,
    "train_on_batch": STEPS,
    "adversaries": STEPS,
    "embedding": STEPS,
    "recurrent": STEPS,
    "plain_variables": STEPS,
    "from_iterator": STEPS,
    "evaluated": STEPS,
    "endless_data": STEPS,
    "scheduled": STEPS,
}
"""The steps of each kind of training."""
WITH_TRUTH = ("fit", "fit_xla", "long", "function", "function_xla", "eager", "run_eagerly", "train_on_batch")
"""Kinds whose truth is computed beside the training."""
GROUPS = [tuple(KINDS)[at::4] for at in range(4)]
"""Each group is one launched run."""
EVERYTHING = ("--budget", "off", "--capture", "all:every=1", "--capture", "layers:every=1")

pytestmark = pytest.mark.slow


class Watched(NamedTuple):
    """A launched run in which a process trained each of several kinds, and the folder of what they told."""

    run: Run
    folder: Path

    def worker(self, kind: str) -> str:
        return f"rank0-{told(self.folder, kind)['pid']}"

    def names(self, kind: str) -> set[str]:
        worker = self.worker(kind)
        return {row["name"] for row in self.run.series().to_pylist() if row["worker"] == worker}


class Trainings:
    """The trainings of all kinds, with Leadline and without; a group is trained when one of its kinds is needed."""

    def __init__(self) -> None:
        self._bare: dict[tuple[str, ...], Path] = {}
        self._watched: dict[tuple[str, ...], Watched] = {}

    def bare(self, kind: str) -> dict[str, Any]:
        """Return what a kind tells without Leadline: the digest of its weights, and the truth about each step."""
        group = group_of(kind)
        if group not in self._bare:
            self._bare[group] = launch(["--truth", ".", *group])[1]
        return told(self._bare[group], kind)

    def watched(self, kind: str) -> Watched:
        group = group_of(kind)
        if group not in self._watched:
            self._watched[group] = watch(group, EVERYTHING)
        return self._watched[group]


@pytest.fixture(scope="module")
def trainings() -> Trainings:
    return Trainings()


def group_of(kind: str) -> tuple[str, ...]:
    return next(group for group in GROUPS if kind in group)


def told(folder: Path, kind: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{kind}.json").read_text()))


def watch(kinds: tuple[str, ...], options: tuple[str, ...]) -> Watched:
    words = [PYTHON, *LEADLINE[1:], "run", "--out", "runs", "--no-default-rules", *options, "--"]
    ended, folder = launch([".", *kinds], words)
    return Watched(ended.run, folder)


def launch(arguments: list[str], words: Sequence[str] = ()) -> tuple[Ended, Path]:
    job = [PYTHON, script("tensorflow_kinds.py"), *arguments]
    ended, folder = recorded([*words, *job], patience=len(arguments) * PATIENCE, **ON_TENSORFLOW)
    assert ended.status == 0, ended.err
    return ended, folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_training(kind: str, trainings: Trainings) -> None:
    bare, trained = trainings.bare(kind), trainings.watched(kind)
    run, worker, names = trained.run, trained.worker(kind), trained.names(kind)
    assert told(trained.folder, kind)["digest"] == bare["digest"]
    document = run.worker_documents()[worker]
    assert document.off is None, document.off
    assert document.steps["train"] == KINDS[kind]
    for collection in ("losses", "weights", "gradients", "gradient_norms"):
        assert names.intersection(run.tensor_names(collection=collection)), collection
    if kind in WITH_TRUTH:
        assert len(bare["truth"]) == KINDS[kind]
        for step, expected in enumerate(bare["truth"]):
            assert captured(run, worker, names, expected, step) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("preset", ["standard", "full"])
def test_presets_leave_every_bit(preset: str, trainings: Trainings) -> None:
    kinds = ("convolution", "convolution_xla", "long")
    trained = watch(kinds, ("--preset", preset))
    assert len(trained.run.worker_documents()) == len(kinds)
    for kind in kinds:
        assert told(trained.folder, kind)["digest"] == trainings.bare(kind)["digest"]
    truth, worker = trainings.bare("long")["truth"], trained.worker("long")
    for name in ("loss", "metrics/accuracy"):  # of every step, also of those at which nothing else is captured
        rows = [row for row in trained.run.tensor(name).statistics("value").to_pylist() if row["worker"] == worker]
        assert [row["step"] for row in rows] == list(range(KINDS["long"])), name
        if name == "loss":
            assert [row["value"] for row in rows] == pytest.approx([values["loss"] for values in truth], rel=1e-4)


def captured(run: Run, worker: str, names: Iterable[str], wanted: Iterable[str], step: int) -> dict[str, float]:
    """Return what was captured of a step of a worker with tensors of these names, by the names of the truth."""
    values = {}
    for name in wanted:
        tensor, statistic = name, "l2"
        if name == "loss":
            statistic = "value"
        elif name == "first_output_abs_mean":
            (tensor,) = (name for name in names if name.endswith("first_output_0"))
            statistic = "abs_mean"
        values[name] = run.tensor(tensor).statistic(statistic, step, worker)
        assert math.isfinite(values[name])
    return values


def test_two_workers_capture_the_same_steps_together(tmp_path: Path) -> None:
    """A capture of what workers reduce communicates: a worker that captures alone would wait forever."""
    bare = _hashes_of_workers([PYTHON])
    options = ("--out", str(tmp_path), "--name", "run", "--no-default-rules")
    watched = _hashes_of_workers([PYTHON, *LEADLINE[1:], "run", *options, "--", PYTHON])
    assert watched == bare
    run = Run(str(tmp_path / "run"))
    steps = {worker.partition("-")[0]: document.steps for worker, document in run.worker_documents().items()}
    assert steps == {"rank0": {"train": 120}, "rank1": {"train": 120}}
    rows = run.tensor("weights").statistics("l2").to_pylist()
    by_rank = [{row["step"]: row["value"] for row in rows if row["worker"].startswith(rank)} for rank in steps]
    assert by_rank[0] == by_rank[1]
    assert sorted(by_rank[0]) == [0, 1, 2, 3, 4, 5, 10, 20, 50, 100]
    assert run.tensor("gradient/weights").steps() == sorted(by_rank[0])


def _hashes_of_workers(launcher: list[str]) -> dict[str, str]:
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("localhost", 0))
        ports = [str(free.getsockname()[1]) for free in (one, other)]
    command = [*launcher, script("tensorflow_workers.py"), *ports]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment(**ON_TENSORFLOW)
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {result["index"]: result["hash"] for result in results}
