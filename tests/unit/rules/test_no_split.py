"""no_split: boosters whose trees are single leaves."""

from __future__ import annotations

import math

import pytest
from tree_scenarios import importances, splits

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.trees.no_split import NoSplit
from leadline.testing.runs import Capture, Part
from leadline.testing.windows import verdicts


def judge(*parts: Part, rounds: int = 10) -> list[Verdict]:
    return [verdict for _, verdict in verdicts(NoSplit(rounds=rounds), parts)]


@pytest.mark.parametrize(("kind", "setting"), [("weight", "min_child_weight"), ("split", "min_data_in_leaf")])
def test_a_booster_without_a_split_gets_the_advice_of_its_framework(kind: str, setting: str) -> None:
    first, last = judge(splits(8, 0.0, 0.0, kind=kind), splits(9, 0.0, 0.0, kind=kind))
    assert isinstance(first, Undecided)
    assert (first.why, first.stage) == ("9 of 10 rounds", "suspected")
    assert isinstance(last, Fired)
    assert last.message == "no tree has a split after 10 rounds: each is a single leaf"
    assert last.tensors == (f"feature_importance/{kind}/f0", f"feature_importance/{kind}/f1")
    assert setting in last.suggestion


def test_the_one_prediction_is_told() -> None:
    info = {"predictions": TensorInfo("predictions", ("predictions",), (9,))}
    same, different = (
        Capture(9, {"predictions": {"min": 0.25, "max": highest}}, infos=info) for highest in (0.25, 0.5)
    )
    for predictions, told in ((same, True), (different, False)):
        (fired,) = judge(predictions, splits(9, 0.0))
        assert isinstance(fired, Fired)
        assert fired.message.endswith("every prediction is 0.25") == told


def test_a_single_split_is_enough() -> None:
    assert judge(splits(9, 0.0, 1.0)) == [Clear()]


def test_linear_boosters_and_unknown_numbers_say_nothing() -> None:
    assert isinstance(judge(importances(9, {"a": 0.0}))[0], Undecided)
    assert isinstance(judge(splits(9, math.nan))[0], Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="no_split: rounds must be"):
        NoSplit(rounds=0)
