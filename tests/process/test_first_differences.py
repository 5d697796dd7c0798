"""``leadline compare`` names the first step and tensor at which real trainings differ that differ in one thing."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import pytest
from launching import environment, finish, script
from recorded import recorded

import leadline
from leadline.analysis.first_difference import FirstDifference, first_difference

EXPECTED = {
    "seed": (0, "embedding.weight", "what the training begins with"),
    "tokenizer": (0, "Model_input_0", "what the model is given"),
    "order": (2, "Model_input_0", "what the model is given"),
    "dropout": (0, "dropout_output_0", "the forward pass"),
    "rate": (0, "AdamW/lr", "the settings of the optimizer"),
    "clipped": (3, "gradient/head.", "the backward pass, or how gradients are clipped"),
}
"""By what differs: the step, the beginning of the tensor's name, and of the cause."""

pytestmark = pytest.mark.slow


@cache
def trained() -> Path:
    ended, folder = recorded([sys.executable, script("first_differences.py"), "base", "again", *EXPECTED])
    assert ended.status == 0, ended.err
    return folder / "leadline-runs"


def between(one: str, other: str) -> FirstDifference | None:
    return first_difference(*(leadline.open_run(trained() / name) for name in (one, other)))


@pytest.mark.parametrize("kind", EXPECTED)
def test_what_differs_is_named_with_its_first_step(kind: str) -> None:
    step, tensor, cause = EXPECTED[kind]
    found = between("base", kind)
    assert found is not None
    assert (found.step, found.equal_steps) == (step, step)
    assert found.tensor.startswith(tensor)
    assert found.cause.startswith(cause)


def test_the_same_training_does_not_differ() -> None:
    assert between("base", "again") is None


def test_compare_prints_it(tmp_path: Path) -> None:
    runs = [str(trained() / name) for name in ("base", "rate", "again")]
    words = [sys.executable, "-m", "leadline", "compare", *runs]
    lines = finish(words, tmp_path, env=environment(COLUMNS="160")).lines
    assert "first difference of rate from base: step 0: AdamW/lr is 0.001 and 0.002; what differs: the settings" in (
        next(line for line in lines if "of rate" in line)
    )
    assert "first difference of again from base: none in what both have captured" in lines
    rate, again = json.loads(finish([*words, "--json"], tmp_path, env=environment()).out)["first_differences"]
    assert (rate["tensor"], rate["values"], again) == ("AdamW/lr", ["0.001", "0.002"], None)
