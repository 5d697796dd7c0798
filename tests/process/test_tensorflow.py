"""Unmodified trainings with TensorFlow: bit-identical results, and captured values equal to those computed eagerly."""

from __future__ import annotations

import json
import math
from pathlib import Path
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
TOLD = ("fit", "fit_xla", "function", "function_xla", "eager", "run_eagerly", "train_on_batch")
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
    truth = folder / "truth.json"
    calm = environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    words = [PYTHON, script("tensorflow_kinds.py"), kind]
    bare = finish([*words, str(truth)], folder, env=calm)
    assert bare.status == 0, bare.err
    watched = [*LEADLINE, "run", "--out", str(folder / "runs"), "--no-default-rules", *options, "--", *words]
    ended = finish(watched, folder, env=calm)
    assert ended.status == 0, ended.err
    return Trained(json.loads(bare.lines[-1]), ended, json.loads(truth.read_text()))


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
    if kind in TOLD:
        assert len(trained.truth) == STEPS
        for step, told in enumerate(trained.truth):
            assert captured(run, told, step) == pytest.approx(told, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("preset", ["light", "standard", "full"])
@pytest.mark.parametrize("kind", ["convolution", "convolution_xla"])
def test_presets_leave_every_bit(kind: str, preset: str, tmp_path: Path) -> None:
    trained = train(kind, tmp_path, "--preset", preset)
    assert json.loads(trained.ended.lines[-1]) == trained.bare


def captured(run: Run, told: dict[str, float], step: int) -> dict[str, float]:
    """Return what was captured of the things told about a step."""
    values = {}
    for name in told:
        if name == "loss":
            values[name] = run.tensor(name).statistic("value", step)
        elif name == "first_output_abs_mean":
            (layer,) = (name for name in run.tensor_names() if name.endswith("first_output_0"))
            values[name] = run.tensor(layer).statistic("abs_mean", step)
        else:
            values[name] = run.tensor(name).statistic("l2", step)
        assert math.isfinite(values[name])
    return values
