"""What losses of optax are given is known from the programs of JAX: mistakes are found, and their twins left alone."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from launching import ON_JAX, script
from recorded import recorded

import leadline
from leadline.judge.judge import judge_run
from leadline.records.manifest import RuleSpec

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "jax" / "bin" / "python")
MISTAKES = {
    "not_logits": "takes logits and applies softmax itself, but is given the output of a softmax",
    "sigmoid_twice": "takes logits and applies sigmoid itself, but is given the output of a sigmoid",
    "softmax_of_one": "over a single class is always 0",
    "not_log_probabilities": "takes log-probabilities, but is given probabilities, the output of a softmax",
    "softmax_over_batch": "softmax is taken over the batch",
    "negated": "the negative of cross entropy is minimized",
    "swapped": "is given labels as predictions, and predictions as labels",
    "broadcast": "compares each prediction with every label of the batch",
    "impossible_labels": "takes labels from 0 to 1, but is given labels from -1 to 1",
    "dropout": "dropout is applied behind the last layer",
    "labels_out_of_reach": "a ReLU produces no number below 0, but",
    "several_classes": "of the samples belong to several classes, but softmax lets the probabilities add up to 1",
    "regression_of_classes": "squared error on labels that are just 0 and 1",
}
"""What a message about each mistake says."""

pytestmark = pytest.mark.slow


@functools.cache
def trained() -> tuple[dict[str, Any], Path]:
    ended, place = recorded([PYTHON, script("jax_loss_calls.py"), "."], patience=1500, **ON_JAX)
    assert ended.status == 0, ended.err
    return dict(json.loads(ended.lines[-1])), place


def judged(name: str) -> tuple[list[str], dict[str, str]]:
    """Return the messages about a training, and the statuses of the rules."""
    run = str(trained()[1] / name)
    (worker,) = leadline.open_run(run).worker_documents().values()
    assert (worker.off, worker.notes) == (None, ())
    results = judge_run(run, [RuleSpec("loss_input", "loss_input"), RuleSpec("loss_choice", "loss_choice")])
    messages = [finding.message for rule in results.rules for finding in rule.findings]
    return messages, {rule.name: rule.status for rule in results.rules}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str) -> None:
    (message,) = judged(f"{mistake}-mistaken")[0]
    assert MISTAKES[mistake] in message


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_twin_of_a_mistake_is_clear(mistake: str) -> None:
    messages, statuses = judged(f"{mistake}-correct")
    assert messages == []
    assert statuses == {"loss_input": "NoIssuesFound", "loss_choice": "NoIssuesFound"}


def test_weights_are_bit_identical_with_taps_at_losses() -> None:
    results, _ = trained()
    assert {name: result["watched"] for name, result in results.items()} == {
        name: result["bare"] for name, result in results.items()
    }
