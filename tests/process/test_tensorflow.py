"""Unmodified trainings with TensorFlow: bit-identical results, and captured values equal to those computed eagerly."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from launching import LEADLINE, Ended, environment, finish, script

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

pytestmark = pytest.mark.slow


class Trained(NamedTuple):
    """A training with Leadline and without."""

    bare: dict[str, Any]
    ended: Ended
    truth: list[dict[str, float]]

    @property
    def run(self) -> Run:
        return self.ended.run


def train(kind: str, folder: Path, *options: str) -> Trained:
    words = [PYTHON, script("tensorflow_kinds.py"), kind]
    bare, truth = train_bare(kind)
    calm = environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    watched = [*LEADLINE, "run", "--out", str(folder / "runs"), "--no-default-rules", *options, "--", *words]
    ended = finish(watched, folder, env=calm)
    assert ended.status == 0, ended.err
    return Trained(bare, ended, truth)


@functools.cache
def train_bare(kind: str) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """Train without Leadline; return the digest of the weights, and the truth about each step."""
    with TemporaryDirectory() as folder:
        truth = Path(folder) / "truth.json"
        calm = environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
        ended = finish([PYTHON, script("tensorflow_kinds.py"), kind, str(truth)], Path(folder), env=calm)
        assert ended.status == 0, ended.err
        return json.loads(ended.lines[-1]), json.loads(truth.read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_training(kind: str, tmp_path: Path) -> None:
    trained = train(kind, tmp_path, "--budget", "off", "--capture", "all:every=1", "--capture", "layers:every=1")
    run = trained.run
    assert json.loads(trained.ended.lines[-1]) == trained.bare
    (document,) = run.worker_documents().values()
    assert document.off is None, document.off
    assert document.steps["train"] == KINDS[kind]
    for collection in ("losses", "weights", "gradients", "gradient_norms"):
        assert run.tensor_names(collection=collection), collection
    if kind in WITH_TRUTH:
        assert len(trained.truth) == STEPS
        for step, expected in enumerate(trained.truth):
            assert captured(run, expected, step) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("preset", ["light", "standard", "full"])
@pytest.mark.parametrize("kind", ["convolution", "convolution_xla"])
def test_presets_leave_every_bit(kind: str, preset: str, tmp_path: Path) -> None:
    trained = train(kind, tmp_path, "--preset", preset)
    assert json.loads(trained.ended.lines[-1]) == trained.bare


def captured(run: Run, names: Iterable[str], step: int) -> dict[str, float]:
    """Return what was captured of a step, by the names of the truth."""
    values = {}
    for name in names:
        if name == "loss":
            values[name] = run.tensor(name).statistic("value", step)
        elif name == "first_output_abs_mean":
            (layer,) = (name for name in run.tensor_names() if name.endswith("first_output_0"))
            values[name] = run.tensor(layer).statistic("abs_mean", step)
        else:
            values[name] = run.tensor(name).statistic("l2", step)
        assert math.isfinite(values[name])
    return values
