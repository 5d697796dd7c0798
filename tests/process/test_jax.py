"""Unmodified trainings with JAX in many styles: bit-identical, traced as often, and captured values equal to others."""

from __future__ import annotations

import functools
import json
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from launching import LEADLINE, environment, finish, script

import leadline
from leadline.reader.run import Run

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "jax" / "bin" / "python")
STEPS = 12
STYLES = {
    "linen": STEPS,
    "of_nnx": STEPS,
    "equinox": STEPS,
    "plain": STEPS,
    "donated": STEPS,
    "scanned": 20,
    "rematerialized": STEPS,
    "method": STEPS,
    "skipping": STEPS,
    "split": STEPS,
    "eager_update": STEPS,
    "eager": STEPS,
    "eager_plain": STEPS,
    "gspmd": STEPS,
    "shard_mapped": STEPS,
    "of_keras": STEPS,
}
"""The steps of each style."""
WITHOUT_TRUTH = {"of_nnx", "equinox", "skipping", "of_keras"}

pytestmark = pytest.mark.slow


@functools.cache
def bare() -> dict[str, Any]:
    return run_script("bare")


@functools.cache
def watched() -> tuple[TemporaryDirectory[str], dict[str, Any]]:
    folder = TemporaryDirectory(prefix="leadline-jax-")
    return folder, run_script(folder.name)


def run_script(folder: str) -> dict[str, Any]:
    command = [PYTHON, script("jax_kinds.py"), folder]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=1500, check=False, env=environment(JAX_PLATFORMS="cpu")
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_of(name: str) -> Run:
    return leadline.open_run(str(Path(watched()[0].name) / name))


@pytest.mark.parametrize("preset", ["standard", "full"])
@pytest.mark.parametrize("style", STYLES)
def test_a_style_is_bit_identical_and_traced_as_often(style: str, preset: str) -> None:
    _, results = watched()
    (document,) = run_of(f"{style}-{preset}").worker_documents().values()
    assert document.off is None, document.off
    assert document.steps["train"] == STYLES[style]
    assert results[f"{style}-{preset}"]["digest"] == bare()[style]["digest"]
    assert results[f"{style}-{preset}"]["traces"] == bare()[style]["traces"]


@pytest.mark.parametrize("style", STYLES)
def test_a_style_is_captured(style: str) -> None:
    run = run_of(f"{style}-full")
    for collection in ("losses", "weights", "gradients", "gradient_norms"):
        assert run.tensor_names(collection=collection), collection


@pytest.mark.parametrize("style", [style for style in STYLES if style not in WITHOUT_TRUTH])
def test_captured_values_equal_those_computed_beside_the_training(style: str) -> None:
    run, truth = run_of(f"{style}-full"), bare()[style]["truth"]
    assert len(truth) == STYLES[style]
    for step, expected in enumerate(truth):
        found = dict(captured(run, expected, step))
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6), step


def captured(run: Run, names: dict[str, float], step: int) -> Iterator[tuple[str, float]]:
    for name in names:
        value = run.tensor(name).statistic("value" if name in ("loss", "gradient_norm") else "l2", step)
        assert math.isfinite(value)
        yield name, value


def test_names() -> None:
    names = {style: set(run_of(f"{style}-full").tensor_names()) for style in STYLES}
    assert {"first/kernel", "gradient/first/kernel", "first_output_0", "second_output_0"} <= names["linen"]
    assert {"optimizer/1/0/mu/first/kernel", "relu_output_0", "Linen_input_0"} <= names["linen"]
    assert {"first/kernel", "gradient/blocks/0/kernel", "blocks/0_output_0", "norm_output_0"} <= names["of_nnx"]
    assert {"layers/0/weight", "gradient/layers/2/bias", "layers/1_output_0", "MLP_output_0"} <= names["equinox"]
    assert {"network/dense/kernel", "gradient/network/dense/bias", "network/dense_output_0"} <= names["of_keras"]


def test_an_update_that_is_not_made_has_no_values() -> None:
    gradient = run_of("skipping-full").tensor("gradient/w1")
    steps = gradient.statistics("l2")["step"].to_pylist()
    assert steps == [step for step in range(STEPS) if step % 3]


def test_hyperparameters_that_an_optimizer_keeps() -> None:
    rate = run_of("method-full").tensor("learning_rate")
    assert rate.statistic("value", 5) == pytest.approx(0.01)


def test_a_wrapped_function_is_like_the_one_of_jax() -> None:
    command = [PYTHON, script("jax_wrapper.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment(JAX_PLATFORMS="cpu")
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "jax.md").read_text()
    (tmp_path / "train.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    command = [
        *LEADLINE,
        "run",
        "--out",
        "runs",
        "--no-default-rules",
        "--budget",
        "off",
        "--",
        PYTHON,
        "train.py",
    ]
    ended = finish(command, tmp_path, env=environment(JAX_PLATFORMS="cpu"))
    assert ended.status == 0, ended.err
    assert ended.run.tensor("gradient/first/kernel").statistic("l2", step=50) > 0
    assert 0 < ended.run.tensor("relu_output_0").statistic("zero_ratio", step=0) < 1
