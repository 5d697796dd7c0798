"""unscaled_input: three conditions with their bounds, pooling, and exceptions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.unscaled_input import UnscaledInput
from leadline.testing.runs import ArrayStatistics, Capture, Part
from leadline.testing.windows import verdicts


def batch(step: int, means: list[float], stds: list[float], samples: int = 500, dtype: str = "float32") -> list[Part]:
    infos = {"Net_input_0": TensorInfo("Net_input_0", ("inputs", "layers"), (samples, len(means)), dtype)}
    return [
        Capture(step, {"Net_input_0": {"abs_max": 1.0}}, infos=infos),
        ArrayStatistics(step, {"Net_input_0": {"unit_mean": means, "unit_std": stds}}, infos=infos),
    ]


def judge(*batches: list[Part], **parameters: float) -> Verdict:
    return verdicts(UnscaledInput(**parameters), [part for batch in batches for part in batch])[-1][1]


@pytest.mark.parametrize(
    ("means", "stds", "says"),
    [
        ([0.0, 0.0], [0.125, 125.0], None),
        ([0.0, 0.0], [0.124, 125.0], "feature 1 has a standard deviation 1.01e+03 times"),
        ([0.0, 10.0], [1.0, 1.0], None),
        ([0.0, 10.1], [1.0, 1.0], "feature 1 is 10.1 standard deviations from zero"),
        ([0.0], [100.0], None),
        ([0.0], [100.5], "standard deviation 100 is outside [0.01, 100]"),
        ([0.0], [0.01], None),
        ([0.0], [0.0099], "is outside"),
    ],
)
def test_each_condition_fires_and_is_clear_on_its_bound(
    means: list[float], stds: list[float], says: str | None
) -> None:
    verdict = judge(batch(0, means, stds))
    if says is None:
        assert verdict == Clear()
    else:
        assert isinstance(verdict, Fired)
        assert says in verdict.message


def test_batches_are_pooled() -> None:
    values = np.random.default_rng(0).normal([3.0, -40.0], [1.0, 5.0], (600, 2))
    parts = [
        batch(at, list(part.mean(0)), list(part.std(0)), len(part))
        for at, part in enumerate((values[:100], values[100:]))
    ]
    fired = judge(*parts, offset=0.1)
    assert isinstance(fired, Fired)
    assert fired.evidence["offset"] == pytest.approx(max(abs(values.mean(0)) / values.std(0)))


def test_undecided_without_enough_samples() -> None:
    assert isinstance(judge(batch(0, [0.0], [1e9], 499)), Undecided)
    assert isinstance(judge(batch(0, [0.0], [1e9], 250), batch(1, [0.0], [1e9], 250)), Fired)


def test_token_ids_and_nonfinite_inputs_are_not_evaluated() -> None:
    assert isinstance(judge(batch(0, [5000.0], [9000.0], dtype="int64")), Undecided)
    assert isinstance(judge(batch(0, [math.nan, 0.0], [1.0, 1.0])), Undecided)
    assert isinstance(judge(batch(0, [0.0, 0.0], [math.inf, 1.0])), Undecided)


def test_a_constant_feature_has_no_scale() -> None:
    assert judge(batch(0, [0.0, 7.0], [1.0, 0.0])) == Clear()
    assert "is outside" in judge(batch(0, [0.0, 0.0], [0.0, 0.0])).message


@pytest.mark.parametrize(("name", "value"), [("ratio", 1.0), ("offset", 0.0), ("scale", 1.0)])
def test_invalid_parameters_are_rejected(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"unscaled_input: {name} must be"):
        UnscaledInput(**{name: value})
