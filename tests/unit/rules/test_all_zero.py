"""all_zero: the share of zeros, of arrays and single numbers."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import skipped

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.tensors.all_zero import AllZero
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

GRADIENT = "gradient/fc.weight"


def judge(values: dict[str, dict[str, float]], **parameters: object) -> Fired | Clear | Undecided:
    rule = AllZero(**{"collection_names": ("gradients", "losses"), **parameters})
    ((_, verdict),) = verdicts(rule, [Capture(0, values)], shapes={GRADIENT: (100, 10)})
    return verdict


def test_fires_on_its_bound_and_not_below() -> None:
    fired = judge({GRADIENT: {"zero_ratio": 0.5}}, threshold=50)
    assert isinstance(fired, Fired)
    assert fired.message == "gradient/fc.weight: 50 % of 1,000 elements are zero"
    assert judge({GRADIENT: {"zero_ratio": math.nextafter(0.5, 0)}}, threshold=50) == Clear()


def test_a_scalar_that_is_zero_is_all_zero() -> None:
    fired = judge({"loss": {"value": 0.0}, GRADIENT: {"zero_ratio": 1.0}})
    assert isinstance(fired, Fired)
    assert set(fired.tensors) == {"loss", GRADIENT}
    assert judge({"loss": {"value": 1e-300}}) == Clear()


def test_nan_is_not_zero_and_empty_tensors_are_not_evaluated() -> None:
    assert judge({"loss": {"value": math.nan}}) == Clear()
    assert isinstance(judge({GRADIENT: {"zero_ratio": math.nan}}), Undecided)


def test_the_advice_depends_on_what_is_zero() -> None:
    results = {
        judge({name: {"zero_ratio": 1.0}}, tensor_regex=(".",)).suggestion
        for name in (GRADIENT, "fc.weight", "act.relu_output_0")
    }
    assert len(results) == 3


def test_clear_is_undecided_with_incomplete_data() -> None:
    rule = AllZero(tensor_regex=("fc",))
    parts = [Capture(0, {GRADIENT: {"zero_ratio": 0.0}})]
    assert isinstance(verdicts(rule, parts, is_incomplete=True)[0][1], Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="all_zero: nothing is selected; give collection_names"):
        AllZero()
    with pytest.raises(UnknownNameError, match="did you mean 'gradients'"):
        AllZero(collection_names=("gradient",))
    for threshold in (0.0, 100.5):
        with pytest.raises(ConfigurationError, match="threshold must be a number > 0 and <= 100"):
            AllZero(collection_names=("gradients",), threshold=threshold)


def test_gradients_of_a_skipped_step_are_not_evaluated() -> None:
    rule = AllZero(collection_names=("gradients",))
    gradient = Capture(0, {GRADIENT: {"zero_ratio": 1.0}})
    assert isinstance(verdicts(rule, [gradient])[0][1], Fired)
    assert verdicts(rule, [gradient, skipped(0)])[0][1] == Clear()
