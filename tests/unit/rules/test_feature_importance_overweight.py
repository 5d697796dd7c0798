"""feature_importance_overweight: the share of the largest importances of each kind."""

from __future__ import annotations

import math

import pytest
from tree_scenarios import importances

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.trees.feature_importance_overweight import FeatureImportanceOverweight
from leadline.testing.windows import verdicts

EVEN = {f"f{index}": 0.125 for index in range(8)}


def judge(values: dict[str, float], kind: str = "weight", **parameters: object) -> Verdict:
    ((_, verdict),) = verdicts(FeatureImportanceOverweight(**parameters), [importances(20, values, kind)])
    return verdict


def test_fires_above_its_bound_and_not_on_it() -> None:
    values = {"a": 0.5, "b": 0.125, "c": 0.125, "d": 0.25}
    assert judge(values, threshold=0.875) == Clear()
    fired = judge(values, threshold=0.87)
    assert isinstance(fired, Fired)
    assert fired.message == "3 of 4 features have 88 % of the importance by weight: a 50 %, d 25 %, b 12 %"
    assert fired.tensors == tuple(f"feature_importance/weight/{each}" for each in "adb")
    assert judge(values, nfeatures=1, threshold=0.5) == Clear()
    assert isinstance(judge(values, nfeatures=1, threshold=0.49), Fired)


def test_importances_are_normalized_by_their_sum() -> None:
    assert isinstance(judge({"a": 90.0, "b": 4.0, "c": 3.0, "d": 3.0}), Fired)
    assert judge(dict.fromkeys("abcdefgh", 100.0)) == Clear()


def test_the_only_feature_in_use_is_named() -> None:
    fired = judge({"label": 1.0, **dict.fromkeys("abcdefgh", 0.0)})
    assert isinstance(fired, Fired)
    assert fired.message == "1 of 9 features has 100 % of the importance by weight: label 100 %"
    assert judge({"label": 1.0}).message == "the only feature has 100 % of the importance by weight: label 100 %"


def test_only_selected_kinds_are_evaluated_separately() -> None:
    leak = {"id": 1.0, **dict.fromkeys("abcdefgh", 0.0)}
    assert verdicts(FeatureImportanceOverweight(), [importances(20, leak, "gain")]) == []
    both = FeatureImportanceOverweight(tensor_regex=("importance/weight", "importance/gain"))
    ((_, verdict),) = verdicts(both, [importances(20, EVEN), importances(20, leak, "gain")])
    assert isinstance(verdict, Fired)
    assert verdict.evidence["kind"] == "gain"


def test_slashes_in_feature_names_are_kept() -> None:
    assert judge({"a/b": 1.0, "c": 0.0}).evidence["largest"] == {"a/b": 1.0}


def test_invalid_importances_count_as_zero() -> None:
    odd = {"a": math.nan, "b": math.inf, "c": -3.0}
    assert judge(EVEN | odd) == Clear()
    assert judge(odd) == Undecided("no feature had any importance at this step")


def test_the_first_rounds_are_not_evaluated() -> None:
    leak = {"id": 1.0, "b": 0.0}
    results = [
        type(verdict) for _, verdict in verdicts(FeatureImportanceOverweight(), [importances(s, leak) for s in (9, 10)])
    ]
    assert results == [Undecided, Fired]
    early = FeatureImportanceOverweight(start_step=0)
    assert isinstance(verdicts(early, [importances(0, leak)])[0][1], Fired)


def test_clear_is_undecided_with_incomplete_data() -> None:
    ((_, verdict),) = verdicts(FeatureImportanceOverweight(), [importances(20, EVEN)], is_incomplete=True)
    assert isinstance(verdict, Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="is not a valid regular expression"):
        FeatureImportanceOverweight(tensor_regex=("(",))
    with pytest.raises(ConfigurationError, match="threshold must be a number >= 0 and <= 1"):
        FeatureImportanceOverweight(threshold=1.1)
    with pytest.raises(ConfigurationError, match="nfeatures must be an integer >= 1"):
        FeatureImportanceOverweight(nfeatures=0)
