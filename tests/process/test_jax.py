"""Unmodified trainings with JAX in many styles: bit-identical, traced as often, and captured values equal to others."""

from __future__ import annotations

import functools
import json
import math
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import LEADLINE, ON_JAX, environment, finish, script
from recorded import recorded

import leadline
from leadline.reader.run import Run

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "jax" / "bin" / "python")
OLDEST_PYTHON = str(Path(__file__).parents[2] / ".venvs" / "jax_oldest" / "bin" / "python")
STEPS = 12
STYLES = {
    "linen": STEPS,
    "of_nnx": STEPS,
    "equinox": STEPS,
    "plain": STEPS,
    "donated": STEPS,
    "long": 90,
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
    "mapped": STEPS,
    "of_keras": STEPS,
}
"""The steps of each style."""
STANDARD = ("linen", "donated", "long", "split", "eager", "mapped", "of_keras")
"""Those that are also run with the default preset, which captures a part of what the full one does."""
WITHOUT_TRUTH = {"of_nnx", "equinox", "skipping", "of_keras"}

pytestmark = pytest.mark.slow


@functools.cache
def bare() -> dict[str, Any]:
    return recorded_script("bare")[0]


@functools.cache
def watched() -> tuple[dict[str, Any], Path]:
    return recorded_script(".")


def recorded_script(folder: str) -> tuple[dict[str, Any], Path]:
    ended, place = recorded([PYTHON, script("jax_kinds.py"), folder], patience=1500, **ON_JAX)
    assert ended.status == 0, ended.err
    return dict(json.loads(ended.lines[-1])), place


def run_oldest(folder: str, *styles: str) -> dict[str, Any]:
    command = [OLDEST_PYTHON, script("jax_kinds.py"), folder, *styles]
    env = environment(**ON_JAX)
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_of(name: str) -> Run:
    return leadline.open_run(str(watched()[1] / name))


@pytest.mark.parametrize(
    ("style", "preset"), [*((style, "full") for style in STYLES), *((style, "standard") for style in STANDARD)]
)
def test_a_style_is_bit_identical_and_traced_as_often(style: str, preset: str) -> None:
    results, _ = watched()
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


def test_the_losses_of_steps_without_captures_are_those_computed_beside_the_training() -> None:
    run, truth = run_of("long-standard"), bare()["long"]["truth"]
    losses = run.tensor("loss").statistics("value").to_pydict()
    assert losses["step"] == list(range(STYLES["long"]))
    assert losses["value"] == pytest.approx([step["loss"] for step in truth], rel=1e-4)


def test_what_is_due_at_different_steps_is_computed_by_one_program() -> None:
    run = run_of("long-standard")
    steps = {name: len(run.tensor(name).steps()) for name in ("gradient_norm", "w1")}
    assert steps["gradient_norm"] > steps["w1"] > 1, steps
    assert [event["step"] for event in run.timeline().to_pylist() if event["name"] == "compile"] == [0]


def test_a_compilation_counts_as_overhead_of_its_step() -> None:
    run = run_of("long-standard")
    (compilation,) = [event for event in run.timeline().to_pylist() if event["name"] == "compile"]
    took_ms = json.loads(compilation["args"])["duration_ms"]
    (step,) = [row for row in run.timeline().to_pylist() if (row["name"], row["step"]) == ("step", compilation["step"])]
    assert took_ms <= json.loads(step["args"])["own_ns"] / 1e6 <= step["duration_ns"] / 1e6
    (worker,) = run.worker_documents().values()
    assert worker.compile_ns / 1e6 == pytest.approx(took_ms)


def captured(run: Run, names: dict[str, float], step: int) -> Iterator[tuple[str, float]]:
    for name in names:
        value = run.tensor(name).statistic("value" if name in ("loss", "gradient_norm") else "l2", step)
        assert math.isfinite(value)
        yield name, value


def test_the_oldest_version_is_captured(tmp_path: Path) -> None:
    styles = ("linen", "of_nnx", "scanned", "split", "eager", "shard_mapped", "of_keras")
    bare, watched = run_oldest("bare", *styles), run_oldest(str(tmp_path), *styles)
    for name, training in watched.items():
        style = name.rpartition("-")[0]
        assert (training["digest"], training["traces"]) == (bare[style]["digest"], bare[style]["traces"]), name
        run = leadline.open_run(str(tmp_path / name))
        (worker,) = run.worker_documents().values()
        assert (worker.off, worker.notes) == (None, ()), name
        assert run.tensor_names(collection="gradients"), name


def test_a_script_that_imports_only_keras_is_captured(tmp_path: Path) -> None:
    rules = ("--no-default-rules", "--rule", "closing_remarks")
    words = [PYTHON, *LEADLINE[1:], "run", "--out", str(tmp_path / "runs"), *rules, "--", PYTHON]
    done = finish([*words, script("keras_on_jax.py")], tmp_path, env=environment(**ON_JAX))
    assert done.status == 0, done.err
    (path,) = (tmp_path / "runs").iterdir()
    run = leadline.open_run(path)
    assert len(run.steps()) == 32
    assert len(run.tensor("loss").steps()) == 32
    assert len(run.tensor_names("gradients")) == 2
    assert run.trainings() == (0,)
    assert "EarlyStopping takes the largest val_loss for the best one" in done.err


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
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment(**ON_JAX))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "jax.md").read_text()
    (tmp_path / "train.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    command = [
        PYTHON,
        *LEADLINE[1:],
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
    ended = finish(command, tmp_path, env=environment(**ON_JAX))
    assert ended.status == 0, ended.err
    assert ended.run.tensor("gradient/first/kernel").statistic("l2", step=50) > 0
    assert 0 < ended.run.tensor("relu_output_0").statistic("zero_ratio", step=0) < 1


def test_two_processes_capture_the_same_steps_together(tmp_path: Path) -> None:
    """A capture of arrays that several processes share communicates; a process capturing alone would hang."""
    bare = _results_of_processes([PYTHON])
    options = ("--out", str(tmp_path), "--name", "run", "--no-default-rules")
    watched = _results_of_processes([PYTHON, *LEADLINE[1:], "run", *options, "--", PYTHON])
    assert {index: result["hash"] for index, result in watched.items()} == {
        index: result["hash"] for index, result in bare.items()
    }
    run = leadline.open_run(str(tmp_path / "run"))
    assert not [note for worker in run.worker_documents().values() for note in worker.notes]
    rows = run.tensor("gradient/w1").statistics("l2").to_pylist()
    by_rank = {rank: {row["step"]: row["value"] for row in rows if row["worker"].startswith(rank)} for rank in RANKS}
    assert by_rank["rank0"] == by_rank["rank1"]
    assert sorted(by_rank["rank0"]) == [0, 1, 2, 3, 4, 5, 10, 20, 50, 100]
    assert by_rank["rank0"][0] == pytest.approx(bare[0]["first_gradient"], rel=1e-5)
    assert run.tensor("loss").steps() == list(range(120))


RANKS = ("rank0", "rank1")


def _results_of_processes(launcher: list[str]) -> dict[int, Any]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    done = subprocess.run(
        [*launcher, script("jax_processes.py"), str(port)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment(**ON_JAX),
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {result["index"]: result for result in results}
