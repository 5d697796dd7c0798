"""missing_zero_grad and eval_in_train_mode: counts of the hooks against a bound."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.tensors.eval_in_train_mode import EvalInTrainMode
from leadline.rules.tensors.missing_zero_grad import MissingZeroGrad
from leadline.testing.windows import verdicts

LEFT, MODES, CALLS = "SGD/steps_without_zero_grad", "Net/train_steps_in_eval_mode", "Net/eval_calls_in_train_mode"
OTHERS, FROZEN = "Net/other_calls_with_dropout", "Net/frozen_batch_norms"


def judge(rule: Rule, values: dict[str, float], mode: str = "train") -> Verdict:
    part = captured(0, {name: {"value": value} for name, value in values.items()}, mode=mode)
    ((_, verdict),) = verdicts(rule, [part])
    return verdict


@pytest.mark.parametrize(
    ("rule", "name", "patience"),
    [(MissingZeroGrad, LEFT, 5), (EvalInTrainMode, MODES, 10), (EvalInTrainMode, CALLS, 10)],
)
def test_fires_from_its_patience(rule: type[Rule], name: str, patience: int) -> None:
    assert judge(rule(), {name: 0.0}) == Clear()
    nearly = judge(rule(), {name: patience - 1.0})
    assert isinstance(nearly, Undecided)
    assert (nearly.stage, nearly.why.startswith(f"{patience - 1} of {patience} needed steps")) == ("suspected", True)
    fired = judge(rule(), {name: float(patience)})
    assert isinstance(fired, Fired)
    assert fired.message.startswith(f"{name.partition('/')[0]}: {patience} ")
    assert isinstance(judge(rule(), {name: math.nan}), Undecided)


def test_the_worst_is_named() -> None:
    fired = judge(EvalInTrainMode(), {MODES: 11.0, CALLS: 12.0})
    assert isinstance(fired, Fired)
    assert fired.tensors == (CALLS,)
    assert "torch.no_grad()" in fired.suggestion


def test_a_model_without_dropout_and_batch_normalization_has_no_mode_to_evaluate() -> None:
    assert isinstance(judge(EvalInTrainMode(), {MODES: -1.0}), NotApplicable)
    assert judge(EvalInTrainMode(), {MODES: -1.0, CALLS: 0.0}) == Clear()


def test_calls_are_evaluated_in_every_mode() -> None:
    assert isinstance(judge(EvalInTrainMode(), {CALLS: 10.0}, mode="eval"), Fired)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param([5.0, 0.0, 5.0], Fired, id="two evaluations in five batches"),
        pytest.param([5.0, 0.0, 5.0, 0.0], Fired, id="which stay known"),
        pytest.param([5.0, 0.0, 4.0], Undecided, id="too few calls"),
        pytest.param([5.0, 5.0, 5.0], Undecided, id="calls at each step"),
        pytest.param([0.0, 5.0, 5.0], Undecided, id="calls at each step since the second capture"),
        pytest.param([2.0, 0.0] * 6, Clear, id="looks at the outputs"),
    ],
)
def test_calls_of_several_evaluations_add_up(counts: list[float], expected: type[Verdict]) -> None:
    parts = [captured(10 * step, {CALLS: {"value": count}}) for step, count in enumerate(counts)]
    assert isinstance([verdict for _, verdict in verdicts(EvalInTrainMode(), parts)][-1], expected)


def test_calls_without_a_loss_are_remarked() -> None:
    assert judge(EvalInTrainMode(), {MODES: 0.0, CALLS: 0.0, OTHERS: 9.0}) == Clear()
    verdict = judge(EvalInTrainMode(), {MODES: 0.0, CALLS: 0.0, OTHERS: 10.0})
    assert isinstance(verdict, Clear)
    (remark,) = verdict.product["remarks"]
    assert remark.startswith("Net was called up to 10 times without gradients between two updates while dropout was")


def test_frozen_batch_normalization_in_training_mode_is_remarked() -> None:
    assert judge(EvalInTrainMode(), {MODES: 0.0, FROZEN: 0.0}) == Clear()
    verdict = judge(EvalInTrainMode(), {MODES: 0.0, FROZEN: 2.0})
    assert isinstance(verdict, Clear)
    (remark,) = verdict.product["remarks"]
    assert remark.startswith("Net was trained with 2 frozen batch normalizations in training mode")
    parts = [captured(step, {MODES: {"value": 0.0}, FROZEN: {"value": count}}) for step, count in enumerate([1.0, 0.0])]
    assert [verdict for _, verdict in verdicts(EvalInTrainMode(), parts)][-1] == Clear()


@pytest.mark.parametrize("rule", [MissingZeroGrad, EvalInTrainMode])
def test_invalid_parameters_are_rejected(rule: type[Rule]) -> None:
    with pytest.raises(ConfigurationError, match="patience must be"):
        rule(patience=0)
