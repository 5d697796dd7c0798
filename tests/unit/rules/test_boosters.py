"""Advice for boosters and networks, which are distinguished by their captured tensors."""

from __future__ import annotations

from tree_scenarios import importances, loss

from leadline.records.series import TensorInfo
from leadline.records.verdict import Fired
from leadline.rules.losses.overfit import Overfit
from leadline.rules.rule import Rule
from leadline.rules.tensors.all_zero import AllZero
from leadline.rules.tensors.tensor_variance import TensorVariance
from leadline.rules.tensors.unchanged_tensor import UnchangedTensor
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def advice(rule: Rule, parts: list[Capture]) -> str:
    (fired, *_) = [verdict for _, verdict in verdicts(rule, parts) if isinstance(verdict, Fired)]
    return fired.suggestion


def test_losses_by_set_come_from_a_booster() -> None:
    assert "early_stopping_rounds" in advice(Overfit(), [loss(0, train=1.0, holdout=2.0)])
    plain = [Capture(0, {"loss": {"value": 1.0}}), Capture(1, {"loss": {"value": 2.0}}, mode="eval")]
    assert "dropout" in advice(Overfit(), plain)


def test_a_feature_without_importance_gets_booster_advice() -> None:
    rule = AllZero(collection_names=("feature_importance",))
    assert "without the feature" in advice(rule, [importances(0, {"a": 0.0})])


def test_predictions_by_that_name_come_from_a_booster() -> None:
    def captured(name: str, step: int) -> Capture:
        info = TensorInfo(name, ("predictions",), (9,))
        return Capture(step, {name: {"variance": 9.0, "close_1e-05_1e-08": 1.0}}, infos={name: info})

    for rule in (TensorVariance(tensor_regex=(".",), max_threshold=1.0), UnchangedTensor(tensor_regex=(".",))):
        booster_advice = advice(rule, [captured("predictions", step) for step in range(3)])
        other = advice(rule, [captured("CrossEntropyLoss_input_0", step) for step in range(3)])
        assert booster_advice != other
        assert "; usually " in booster_advice
