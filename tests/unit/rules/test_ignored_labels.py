"""ignored_labels: batches without any label that count, by their loss, their number and when they are seen."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from rule_scenarios import captured, given_loss

from leadline.records import loss_facts as facts
from leadline.records.loss_facts import LossKind
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.losses.ignored_labels import IgnoredLabels
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(steps: Sequence[tuple[float, float | None]]) -> list[Verdict]:
    """Return the verdicts on steps with these losses, and shares of ignored labels; None: they were not looked at."""
    parts: list[Capture] = []
    for step, (loss, share) in enumerate(steps):
        parts.append(captured(step, {"loss": {"value": loss}}))
        if share is not None:
            given = {facts.KIND: float(LossKind.CROSS_ENTROPY), facts.IGNORE_INDEX: -100.0, facts.IGNORED_SHARE: share}
            parts.append(given_loss(step, "call", given))
    return [verdict for _, verdict in verdicts(IgnoredLabels(), parts)]


START: list[tuple[float, float | None]] = [(1.0, 0.5), (1.0, 0.5)]


def test_the_first_two_steps_without_labels_are_enough() -> None:
    first, second = judge([(2.0, 1.0), (2.0, 1.0)])
    assert first == Undecided("1 of 2 needed steps agree", stage="suspected")
    assert isinstance(second, Fired)
    assert second.message == (
        "100 % of the labels that cross entropy is given are -100, which it ignores: there is nothing to learn from"
    )
    assert second.since_step == 0


def test_one_batch_is_enough_if_its_loss_is_nan() -> None:
    *before, at, after = judge([*START, *[(1.0, None)] * 30, (math.nan, 1.0), (1.0, None)])
    assert {type(verdict) for verdict in (*before, after)} == {Clear}
    assert isinstance(at, Fired)
    assert at.message.startswith("the loss is NaN: 100 % of the labels")
    assert at.since_step == 32
    assert "-100" in at.suggestion


@pytest.mark.parametrize(("batches", "fires"), [(1, False), (2, False), (5, False), (6, True)])
def test_batches_without_labels_must_be_more_than_the_share(batches: int, fires: bool) -> None:
    steps = [*START, *[(1.0, None)] * 98, *[(0.0, 1.0)] * batches]
    *_, last = judge(steps)
    assert isinstance(last, Fired) is fires
    if isinstance(last, Fired):
        assert last.message.startswith("at 6 of the last 100 steps (100 to 105): 100 % of the labels")


def test_losses_of_0_count_where_they_were_not_looked_at() -> None:
    steps = [*START, *[(1.0, None)] * 40, (0.0, 1.0), *[(0.0, None)] * 6, (0.0, 1.0)]
    *_, last = judge(steps)
    assert isinstance(last, Fired)
    assert last.message.startswith(
        "the loss is 0 or NaN at 8 of the last 50 steps (42 to 49), and at the 2 of them that were looked at: 100 %"
    )


@pytest.mark.parametrize("loss", [0.0, math.nan])
def test_a_loss_of_0_or_nan_with_labels_is_no_finding(loss: float) -> None:
    assert {type(verdict) for verdict in judge([*START, *[(loss, 0.0)] * 20])} == {Clear}


def test_it_does_not_apply_where_no_labels_are_seen() -> None:
    assert {type(verdict) for verdict in judge([(0.0, None)] * 10)} == {NotApplicable}
