"""Facts about labels and predictions: computed from arrays of PyTorch, they equal those of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from leadline.frameworks.kit.array_verbs import ArrayVerbs
from leadline.frameworks.kit.loss_facts import label_facts, probability_facts, unused_name
from leadline.frameworks.torch.capture.loss_inputs import TorchVerbs
from leadline.records import loss_facts as facts
from leadline.records.loss_facts import Activation, LossKind

GENERATOR = np.random.default_rng(4)
LABELS = {
    "one hot": np.eye(4)[GENERATOR.integers(0, 4, 16)],
    "several": (GENERATOR.random((16, 4)) < 0.5).astype("float32"),
    "real": GENERATOR.normal(size=(16, 1)) * 3,
    "whole": GENERATOR.integers(-3, 9, 12),
    "with infinity": np.array([0.0, np.inf, 1.0]),
}
PREDICTIONS = GENERATOR.dirichlet(np.ones(5), 8)


def numbers(found: dict[str, Any]) -> dict[str, float]:
    return {fact: float(number) for fact, number in found.items()}


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("activation", [Activation.TANH, Activation.RELU, Activation.NONE])
def test_labels_have_the_same_facts_in_both(name: str, activation: Activation) -> None:
    labels = LABELS[name]
    has_classes = labels.ndim > 1 and labels.shape[1] > 1
    of_numpy, of_torch = (
        numbers(label_facts(verbs, given, LossKind.SQUARED_ERROR, activation, has_classes=has_classes))
        for verbs, given in ((ArrayVerbs(), labels), (TorchVerbs(torch), torch.from_numpy(labels)))
    )
    assert of_torch == pytest.approx(of_numpy)
    assert (of_numpy[facts.LABEL_MIN], of_numpy[facts.LABEL_MAX]) == (labels.min(), labels.max())
    assert of_numpy[facts.ARE_LABELS_WHOLE] == float((labels == np.floor(labels)).all())
    assert (facts.OUT_OF_REACH_SHARE in of_numpy) == (activation is not Activation.NONE)


@pytest.mark.parametrize("kind", LossKind)
def test_predictions_have_the_same_facts_in_both(kind: LossKind) -> None:
    of_numpy = numbers(probability_facts(ArrayVerbs(), PREDICTIONS, kind, 1))
    of_torch = numbers(probability_facts(TorchVerbs(torch), torch.from_numpy(PREDICTIONS), kind, 1))
    assert of_torch == pytest.approx(of_numpy)
    if of_numpy:
        assert of_numpy[facts.SUM_ERROR] == pytest.approx(0, abs=1e-12)
        assert of_numpy[facts.EXP_SUM_ERROR] == pytest.approx(np.abs(np.exp(PREDICTIONS).sum(1) - 1).max())
        assert of_numpy[facts.PREDICTION_MIN] == PREDICTIONS.min()


@pytest.mark.parametrize(("rows", "is_known"), [(1, False), (7, False), (8, True)])
def test_shares_of_rows_need_eight_rows(rows: int, is_known: bool) -> None:
    labels = np.array([[1.0, 1.0, 0.0]] * rows)
    found = label_facts(ArrayVerbs(), labels, LossKind.CROSS_ENTROPY, Activation.NONE, has_classes=True)
    assert (facts.ONE_HOT_SHARE in found, facts.MULTI_HOT_SHARE in found) == (is_known, is_known)


def test_a_second_call_of_a_loss_has_a_number() -> None:
    assert [unused_name("nll", taken) for taken in ((), ("nll",), ("nll", "nll_1"), ("nll_1",))] == [
        "nll",
        "nll_1",
        "nll_2",
        "nll",
    ]
