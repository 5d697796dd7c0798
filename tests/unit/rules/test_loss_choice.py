"""loss_choice: a regression loss on classes, unless it is a part of a loss of numbers."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import LossKind
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Verdict
from leadline.rules.losses.loss_choice import LossChoice
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

OF_CLASSES = {
    facts.KIND: float(LossKind.SQUARED_ERROR),
    facts.CLASSES: 1.0,
    facts.ARE_LABELS_BINARY: 1.0,
    facts.LABEL_MIN: 0.0,
    facts.LABEL_MAX: 1.0,
}
OF_NUMBERS = {**OF_CLASSES, facts.ARE_LABELS_BINARY: 0.0, facts.LABEL_MAX: 7.0}


def told(**losses: Mapping[str, float]) -> Verdict:
    numbers = {f"{name}/{fact}": value for name, known in losses.items() for fact, value in known.items()}
    infos = {name: TensorInfo(name, ("checks",), ()) for name in numbers}
    parts = [Capture(step, {name: {"value": value} for name, value in numbers.items()}, infos=infos) for step in (0, 1)]
    return verdicts(LossChoice(), parts)[-1][1]


def test_a_squared_error_of_classes_is_named_unless_another_one_is_of_numbers() -> None:
    assert isinstance(told(squared_error=OF_CLASSES), Fired)
    assert isinstance(told(squared_error=OF_CLASSES, squared_error_1=OF_CLASSES), Fired)
    assert isinstance(told(squared_error=OF_NUMBERS, squared_error_1=OF_CLASSES), Clear)


def test_items_that_are_their_own_negatives_are_named_where_they_are_many() -> None:
    pairs = {facts.KIND: float(LossKind.CROSS_ENTROPY), facts.CLASSES: 64.0}
    named = told(cross_entropy={**pairs, facts.OWN_NEGATIVES: 0.25})
    assert isinstance(named, Fired)
    assert "for 25 % of them the right output equals other ones" in named.message
    assert isinstance(told(cross_entropy={**pairs, facts.OWN_NEGATIVES: 0.05}), Clear)
