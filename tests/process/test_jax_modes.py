"""JAX: steps in evaluation mode, equal random numbers, and indices beyond tables are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launching import ON_JAX, environment, finish, script, watched

import leadline

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "jax" / "bin" / "python")
RULES = ("--no-default-rules", "--rule", "eval_in_train_mode", "--rule", "closing_remarks")
SOURCES = str(Path(leadline.__file__).parents[1])

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        (("linen",), "Linen"),
        (("linen", "healthy"), ""),
        (("linen", "chosen"), ""),
        (("nnx",), "OfNnx"),
        (("nnx", "healthy"), ""),
    ],
)
def test_train_steps_in_evaluation_mode_are_found(arguments: tuple[str, ...], model: str, tmp_path: Path) -> None:
    ended = watched(RULES, PYTHON, script("jax_modes.py"), *arguments, folder=tmp_path, **ON_JAX)
    assert ended.status == 0, ended.err
    found = {finding["rule"]: finding["message"] for finding in ended.run.findings().to_pylist()}
    if not model:
        assert found == {}
        return
    assert set(found) == {"eval_in_train_mode"}
    assert found["eval_in_train_mode"].startswith(f"{model}: ")
    assert "training steps in a row with all dropout and batch normalization in evaluation mode" in str(found)


def test_keys_are_followed_to_the_inputs_of_a_step(tmp_path: Path) -> None:
    ended = finish([PYTHON, script("jax_random_keys.py")], tmp_path, env=environment(**ON_JAX, PYTHONPATH=SOURCES))
    assert ended.status == 0, ended.err
    assert json.loads(ended.lines[-1]) == {
        "given": 6.0,
        "old_style": 6.0,
        "made_within": 6.0,
        "captured": 6.0,
        "folded": 0.0,
        "folded_in_part": 0.0,
        "within_functions": 6.0,
        "of_data": 0.0,
        "in_loop": 0.0,
        "nothing": -1.0,
        "fixed_projection": -1.0,
    }


def test_functions_that_use_the_first_parameters_in_place_of_the_given_ones_are_found(tmp_path: Path) -> None:
    words = [PYTHON, script("jax_first_parameters.py")]
    ended = finish(words, tmp_path, env=environment(**ON_JAX, PYTHONPATH=SOURCES))
    assert ended.status == 0, ended.err
    assert json.loads(ended.lines[-1]) == {"ignores/uses_initial_parameters": 2.0}


def test_indices_beyond_a_table_are_found(tmp_path: Path) -> None:
    ended = finish([PYTHON, script("jax_table_indices.py")], tmp_path, env=environment(**ON_JAX, PYTHONPATH=SOURCES))
    assert ended.status == 0, ended.err
    assert json.loads(ended.lines[-1]) == {
        "default": 0.5,
        "of_parts": 1.0,
        "within_functions": 0.5,
        "for_samples": -1.0,
        "modulo": -1.0,
        "clipped": -1.0,
        "masked": -1.0,
        "filled": -1.0,
        "computed": -1.0,
        "padding": -1.0,
        "within": -1.0,
    }


def test_states_of_optimizers_that_are_made_again_are_counted(tmp_path: Path) -> None:
    """Every second number is the number of trainings that began after the first one."""
    ended = finish([PYTHON, script("jax_states.py")], tmp_path, env=environment(**ON_JAX, PYTHONPATH=SOURCES))
    assert ended.status == 0, ended.err
    assert json.loads(ended.lines[-1]) == {
        "kept": [0, 0],
        "every_sixth": [3, 0],
        "every_step": [22, 0],
        "of_one_array": [3, 0],
        "folds": [0, 1],
        "loaded": [0, 0],
        "nnx_before": 0,
        "nnx_after": 7,
    }


@pytest.mark.parametrize("kind", ["linen", "nnx"])
def test_an_evaluation_in_between_ends_no_training(kind: str, tmp_path: Path) -> None:
    ended = watched(RULES, PYTHON, script("jax_modes.py"), kind, "healthy", folder=tmp_path, **ON_JAX)
    assert ended.status == 0, ended.err
    assert len(ended.run.steps(mode="train")) == 40
    assert set(ended.run.trainings()) <= {0}
