"""tensor_variance: two bounds, one of them optional."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.tensors.tensor_variance import TensorVariance
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(*variances: float, **bounds: float) -> Fired | Clear | Undecided:
    values = {f"{name}.weight": {"variance": each} for name, each in zip("abc", variances, strict=False)}
    rule = TensorVariance(collection_names=("weights",), **bounds)
    ((_, verdict),) = verdicts(rule, [Capture(0, values)])
    return verdict


def test_clear_on_both_bounds_and_fired_beyond() -> None:
    assert judge(2.0, 0.5, max_threshold=2.0, min_threshold=0.5) == Clear()
    large = judge(math.nextafter(2.0, 3), 1.0, max_threshold=2.0)
    small = judge(math.nextafter(0.5, 0), 1.0, min_threshold=0.5)
    assert isinstance(large, Fired)
    assert isinstance(small, Fired)
    assert (large.message, small.message) == ("a.weight: variance 2 is above 2", "a.weight: variance 0.5 is below 0.5")
    assert large.suggestion != small.suggestion


def test_the_worst_is_named_first_and_large_before_small() -> None:
    fired = judge(0.0, 3.0, 30.0, max_threshold=2.0, min_threshold=0.5)
    assert isinstance(fired, Fired)
    assert fired.tensors == ("c.weight", "a.weight", "b.weight")
    assert fired.message == "c.weight: variance 30 is above 2, and 2 more tensors"


def test_a_bound_that_is_not_set_is_not_evaluated() -> None:
    assert judge(0.0, 1.0, max_threshold=2.0) == Clear()
    assert judge(1e30, min_threshold=0.5) == Clear()


def test_nonfinite_values_are_not_evaluated() -> None:
    assert isinstance(judge(math.nan, math.inf, max_threshold=1.0), Undecided)
    assert judge(math.nan, 0.5, max_threshold=1.0) == Clear()


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="no bound is given"):
        TensorVariance(collection_names=("weights",))
    with pytest.raises(ConfigurationError, match="nothing is selected"):
        TensorVariance(max_threshold=1.0)
    with pytest.raises(ConfigurationError, match=r"min_threshold \(2\) must not be above max_threshold \(1\)"):
        TensorVariance(collection_names=("weights",), max_threshold=1.0, min_threshold=2.0)
