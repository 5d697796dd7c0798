"""The remark on a class that a loss ignores."""

from __future__ import annotations

import pytest
from rule_scenarios import captured

from leadline.records.loss_facts import LossKind
from leadline.rules.losses.closing_remarks import ClosingRemarks
from leadline.testing.windows import verdicts


def remarks(*tokens: float) -> list[str]:
    """Return the remarks after steps with so many different tokens at ignored positions."""
    given = {"loss_kind": float(LossKind.CROSS_ENTROPY), "classes": 3.0, "ignore_index": 0.0}
    parts = [
        captured(
            step,
            {f"tags/{fact}": {"value": number} for fact, number in {**given, "ignored_tokens": count}.items()}
            | {"loss": {"value": 1.0}},
        )
        for step, count in enumerate(tokens)
    ]
    return list(verdicts(ClosingRemarks(), parts)[-1][1].product["remarks"])


def test_a_class_that_is_ignored_at_words_is_named() -> None:
    (remark,) = remarks(40.0, 45.0)
    assert remark.startswith(
        "cross entropy ignores 0 (ignore_index), one of its 3 classes, also between other labels, at"
    )
    assert "at 40 different tokens" in remark


@pytest.mark.parametrize("tokens", [(0.0, 0.0), (4.0, 4.0), (40.0, 4.0)])
def test_padding_and_tokens_that_separate_texts_are_not_named(tokens: tuple[float, float]) -> None:
    assert remarks(*tokens) == []
