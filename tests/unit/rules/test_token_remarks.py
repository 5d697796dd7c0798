"""What closing_remarks says of the tokens that a language model is given."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.records.loss_facts import LossKind
from leadline.rules.losses.closing_remarks import ClosingRemarks
from leadline.testing.windows import verdicts

HEALTHY = {
    "labels_of_input": 1.0,
    "sequences": 4.0,
    "label_share": 0.97,
    "padding_share": 0.5,
    "common_start": 40.0,
    "common_labels": 0.0,
    "end_token": 2.0,
    "end_sequences": 4.0,
    "end_labels": 1.0,
    "is_end_padding": 0.0,
    "ended_sequences": 3.0,
    "cut_sequences": 1.0,
    "sequences_without_labels": 0.0,
    "mixed_rows": 0.0,
}


def remarks(**changes: float) -> list[str]:
    """Return the remarks after two steps that were given the same."""
    given = {"loss_kind": float(LossKind.CROSS_ENTROPY), **HEALTHY, **changes}
    values = {f"cross_entropy/{fact}": {"value": number} for fact, number in given.items()}
    parts = [captured(step, {**values, "loss": {"value": 1.0}}) for step in range(2)]
    (*_, (_, verdict)) = verdicts(ClosingRemarks(), parts)
    return verdict.product["remarks"]


def test_healthy_tokens_need_no_remark() -> None:
    assert remarks() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"end_labels": 0.0}, "the end token (2) occurs in 8 of the first 8 sequences, and never as a label"),
        ({"end_labels": 0.0, "is_end_padding": 1.0}, "the end token (2), which is the token of padding, too, occurs"),
        ({"sequences_without_labels": 1.0}, "2 of the first 8 sequences have no label at all"),
        (
            {"cut_sequences": 2.0, "ended_sequences": 2.0, "end_sequences": 2.0},
            "4 of the first 8 sequences fill the batch to its end without an end token (2), with which 4 others end",
        ),
        ({"mixed_rows": 1.0}, "2 of the first 8 rows hold several samples (position_ids begin again)"),
        ({"common_labels": 39.0}, "begin with the same 40 tokens, and these are labels, as are 97 % of all tokens"),
        (
            {"begin_token": 1.0, "begin_sequences": 0.0},
            "the beginning token (1) occurs in none of the first 8",
        ),
        (
            {"inner_start": 2.0, "label_share": 1.0},
            "hold the same tokens in a row, behind their beginnings",
        ),
        ({"new_rows": 2.0, "equal_rows": 2.0}, "2 tokens of a batch got a row when the embedding was enlarged"),
        ({"equal_rows": 2.0}, "2 tokens of a batch have the same row in the embedding, which is frozen"),
        ({"padding_share": 0.63}, "63 % of the positions of the first batches are padding"),
    ],
)
def test_what_is_remarked(changes: dict[str, float], words: str) -> None:
    (remark,) = remarks(**changes)
    assert words in remark
    assert remarks(**changes, labels_of_input=0.98) == []  # they are labels of something else
    assert remarks(**changes, labels_of_input=math.nan) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"end_labels": 0.0, "end_sequences": 3.0},
        {"common_labels": 38.0},
        {"common_labels": 2.0, "common_start": 3.0},
        {"common_labels": 39.0, "sequences": 3.0},
        {"begin_token": 1.0, "begin_sequences": 1.0},
        {"begin_token": 1.0, "begin_sequences": 0.0, "sequences": 3.0},
        {"inner_start": 2.0},
        {"inner_start": 0.0, "label_share": 1.0},
        {"inner_start": 2.0, "label_share": 1.0, "sequences": 3.0},
    ],
)
def test_bounds(changes: dict[str, float]) -> None:
    assert remarks(**changes) == []


@pytest.mark.parametrize(("dropped", "is_named"), [(880.0, True), (121.0, True), (120.0, False)])
def test_many_examples_that_a_trainer_leaves_out_are_named(dropped: float, is_named: bool) -> None:
    checks = {"TRL/dropped_examples": {"value": dropped}, "TRL/given_examples": {"value": 1200.0}}
    (*_, (_, verdict)) = verdicts(ClosingRemarks(), [captured(0, {**checks, "loss": {"value": 1.0}})])
    expected = f"the trainer has left out {dropped:.0f} of 1,200 examples of a data set, of which nothing was left"
    assert [remark.startswith(expected) for remark in verdict.product["remarks"]] == [True] * is_named
