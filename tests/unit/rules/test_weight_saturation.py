"""weight_saturation: bounds on both sides, limits of data types, and the percentiles that it needs."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.weight_saturation import WeightSaturation
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(
    low: float,
    high: float,
    largest: float | None = None,
    shape: tuple[int, ...] = (8, 25),
    dtype: str = "float32",
    **settings: bool,
) -> Verdict:
    infos = {"a.weight": TensorInfo("a.weight", ("weights",), shape, dtype)}
    values = {"p0.5": low, "p99.5": high, "abs_max": max(abs(low), abs(high)) if largest is None else largest}
    ((_, verdict),) = verdicts(WeightSaturation(), [Capture(0, {"a.weight": values}, infos=infos)], **settings)
    return verdict


def test_either_side_fires_and_the_bound_is_clear() -> None:
    assert judge(-20.0, 20.0) == Clear()
    assert isinstance(judge(-20.1, 1.0), Fired)
    fired = judge(-1.0, 20.1)
    assert isinstance(fired, Fired)
    assert fired.message == "a.weight: more than 0.5 % of the weights are beyond 20 (percentile 20.1, largest 20.1)"


@pytest.mark.parametrize(("shape", "bound"), [((8, 4, 5, 5), 10.0), ((8,), 100.0), ((), 100.0)])
def test_the_bound_follows_the_fan_in(shape: tuple[int, ...], bound: float) -> None:
    assert judge(0.0, bound, shape=shape) == Clear()
    assert isinstance(judge(0.0, bound + 0.1, shape=shape), Fired)


@pytest.mark.parametrize(("dtype", "edge"), [("float16", 32752.0), ("float8_e4m3fn", 224.0), ("float8_e5m2", 28672.0)])
def test_the_limit_of_the_data_type(dtype: str, edge: float) -> None:
    assert judge(0.0, 0.0, edge, dtype=dtype) == Clear()
    fired = judge(0.0, 0.0, edge + 1, dtype=dtype)
    assert isinstance(fired, Fired)
    assert f"above half of the largest {dtype}" in fired.message
    assert judge(0.0, 0.0, 1e30) == Clear()


def test_only_floating_point_weights_that_are_updated_are_evaluated() -> None:
    names = ("trained.weight", "frozen.weight", "positions.weight")
    infos = {name: TensorInfo(name, ("weights",), (8, 25), "int64" if "pos" in name else "float32") for name in names}
    huge = {"p0.5": -500.0, "p99.5": 500.0, "abs_max": 500.0}
    small = {"p0.5": -1.0, "p99.5": 1.0, "abs_max": 1.0, "update_ratio": 0.1}
    healthy = Capture(0, {"trained.weight": small, "frozen.weight": huge}, infos=infos)
    assert verdicts(WeightSaturation(), [healthy])[0][1] == Clear()
    faulty = Capture(0, {"trained.weight": {**huge, "update_ratio": 0.1}, "frozen.weight": huge}, infos=infos)
    assert verdicts(WeightSaturation(), [faulty])[0][1].tensors == ("trained.weight",)
    whole = Capture(0, {"positions.weight": huge}, infos=infos)
    assert isinstance(verdicts(WeightSaturation(), [whole])[0][1], Undecided)


def test_nan_is_undecided() -> None:
    assert isinstance(judge(math.nan, math.nan), Undecided)
    assert isinstance(judge(0.0, 0.0, math.nan), Undecided)
    assert isinstance(judge(0.0, 0.0, is_incomplete=True), Undecided)


def test_the_percentiles_follow_the_share() -> None:
    assert {need.statistics for need in WeightSaturation().needs().tensors} == {
        ("abs_max", "update_ratio", "p0.5", "p99.5")
    }
    assert {need.statistics for need in WeightSaturation(share=0.1).needs().tensors} == {
        ("abs_max", "update_ratio", "p5", "p95")
    }


@pytest.mark.parametrize(("name", "value"), [("abs_max", 0.0), ("share", 0.0), ("share", 1.0)])
def test_invalid_parameters_are_rejected(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"weight_saturation: {name} must be"):
        WeightSaturation(**{name: value})
