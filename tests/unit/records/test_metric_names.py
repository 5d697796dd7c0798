"""What names of metrics tell."""

from __future__ import annotations

import pytest

from leadline.records.metric_names import is_upward, kind_of, printed_resolution, stem_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("val_acc", "metric"),
        ("Test Accuracy", "metric"),
        ("valLoss", "metric"),
        ("word error rate", "metric"),
        ("Acc@1", "metric"),
        ("macro F1 score", "metric"),
        ("epoch loss", "metric"),
        ("val_cross_entropy", "metric"),
        ("val entropy loss", "other"),
        ("loss scale", "other"),
        ("target accuracy", "other"),
        ("best val acc", "other"),
        ("accumulation", "other"),
        ("kl loss", "other"),
        ("epoch", "bookkeeping"),
        ("learning rate", "bookkeeping"),
        ("time", "bookkeeping"),
        ("", "other"),
    ],
)
def test_the_kind_of_a_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_a_name_without_its_role_is_the_same_in_other_spellings() -> None:
    assert stem_of("eval/accuracy") == stem_of("val acc") == ("validation", frozenset({"accuracy"}))
    assert stem_of("train_loss")[0] == "train"
    assert stem_of("loss")[0] == ""


def test_the_direction() -> None:
    assert is_upward("val_acc") is True
    assert is_upward("score_error") is False
    assert is_upward("temperature") is None


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("valid_0-l2", False),
        ("valid-poisson-nloglik", False),
        ("test-tweedie-nloglik@1.5", False),
        ("valid-rmse", False),
        ("valid-ndcg@5", True),
        ("l2", None),
        ("penalty_l2", None),
    ],
)
def test_the_direction_of_a_metric_of_boosting(name: str, direction: bool | None) -> None:
    assert is_upward(name) is direction


@pytest.mark.parametrize(("value", "unit"), [(0.91, 0.01), (12.0, 1.0), (0.5, 0.1), (1 / 3, 0.0)])
def test_the_unit_of_the_last_decimal(value: float, unit: float) -> None:
    assert printed_resolution(value) == pytest.approx(unit)
