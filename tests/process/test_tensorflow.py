"""Unmodified trainings with TensorFlow: bit-identical results, and captured values equal to those computed eagerly."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from launching import LEADLINE, environment, finish, script

from leadline.reader.run import Run

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "tensorflow" / "bin" / "python")
STEPS = 16
KINDS = {
    "fit": STEPS,
    "fit_xla": STEPS,
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
WITH_TRUTH = ("fit", "fit_xla", "function", "function_xla", "eager", "run_eagerly", "train_on_batch")
"""Kinds whose truth is computed beside the training."""
GROUPS = [tuple(KINDS)[at::4] for at in range(4)]
"""Each group is one launched run."""
SCRIPT = (PYTHON, script("tensorflow_kinds.py"))
CALM = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

pytestmark = pytest.mark.slow


class Watched(NamedTuple):
    """A launched run in which a process trained each of several kinds."""

    run: Run
    folder: Path

    def worker(self, kind: str) -> str:
        return f"rank0-{told(self.folder, kind)['pid']}"

    def names(self, kind: str) -> set[str]:
        worker = self.worker(kind)
        return {row["name"] for row in self.run.series().to_pylist() if row["worker"] == worker}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train all kinds without Leadline; return the folder of what they tell."""
    folder = tmp_path_factory.mktemp("bare")
    for kinds in GROUPS:
        ended = finish([*SCRIPT, "--truth", ".", *kinds], folder, env=environment(**CALM))
        assert ended.status == 0, ended.err
    return folder


def train(kinds: Iterable[str], folder: Path, *options: str) -> Watched:
    words = [*LEADLINE, "run", "--out", str(folder / "runs"), "--no-default-rules", *options, "--"]
    ended = finish([*words, *SCRIPT, ".", *kinds], folder, env=environment(**CALM))
    assert ended.status == 0, ended.err
    return Watched(ended.run, folder)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Watched]:
    """Train all kinds with Leadline, in a few launched runs; return them by kind."""
    runs = {}
    for kinds in GROUPS:
        options = ("--budget", "off", "--capture", "all:every=1", "--capture", "layers:every=1")
        runs |= dict.fromkeys(kinds, train(kinds, tmp_path_factory.mktemp("watched"), *options))
    return runs


def told(folder: Path, kind: str) -> dict[str, Any]:
    return dict(json.loads((folder / f"{kind}.json").read_text()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_training(kind: str, bare: Path, watched: dict[str, Watched]) -> None:
    without, trained = told(bare, kind), watched[kind]
    run, worker, names = trained.run, trained.worker(kind), trained.names(kind)
    assert told(trained.folder, kind)["digest"] == without["digest"]
    document = run.worker_documents()[worker]
    assert document.off is None, document.off
    assert document.steps["train"] == KINDS[kind]
    for collection in ("losses", "weights", "gradients", "gradient_norms"):
        assert names.intersection(run.tensor_names(collection=collection)), collection
    if kind in WITH_TRUTH:
        assert len(without["truth"]) == STEPS
        for step, expected in enumerate(without["truth"]):
            assert captured(run, worker, expected, step) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("preset", ["light", "standard", "full"])
def test_presets_leave_every_bit(preset: str, bare: Path, tmp_path: Path) -> None:
    kinds = ("convolution", "convolution_xla")
    trained = train(kinds, tmp_path, "--preset", preset)
    assert len(trained.run.worker_documents()) == len(kinds)
    for kind in kinds:
        assert told(trained.folder, kind)["digest"] == told(bare, kind)["digest"]


def captured(run: Run, worker: str, names: Iterable[str], step: int) -> dict[str, float]:
    """Return what was captured of a step, by the names of the truth."""
    values = {}
    for name in names:
        if name == "loss":
            values[name] = run.tensor(name).statistic("value", step, worker)
        elif name == "first_output_abs_mean":
            (layer,) = (name for name in run.tensor_names() if name.endswith("first_output_0"))
            values[name] = run.tensor(layer).statistic("abs_mean", step, worker)
        else:
            values[name] = run.tensor(name).statistic("l2", step, worker)
        assert math.isfinite(values[name])
    return values
