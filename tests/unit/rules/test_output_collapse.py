"""output_collapse: equality relative to the size, patience, and unsuitable outputs."""

from __future__ import annotations

import math

import pytest

from leadline.errors import ConfigurationError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.output_collapse import OutputCollapse
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(*stds: float, size: float = 1.0, shape: tuple[int, ...] = (8, 2), dtype: str = "float32") -> list[Verdict]:
    info = {"Net_output_0": TensorInfo("Net_output_0", ("outputs",), shape, dtype)}
    parts = [
        Capture(step, {"Net_output_0": {"batch_std": std, "abs_mean": size}}, infos=info)
        for step, std in enumerate(stds)
    ]
    return [verdict for _, verdict in verdicts(OutputCollapse(), parts)]


def test_fires_at_the_tenth_in_a_row() -> None:
    results = judge(*[0.0] * 9, 1.0, *[0.0] * 10)
    assert [type(verdict) for verdict in results] == [Undecided] * 9 + [Clear] + [Undecided] * 9 + [Fired]
    assert results[5] == Undecided("6 of 10 needed captures agree", stage="suspected")


def test_clear_exactly_on_its_bound_which_grows_with_the_output() -> None:
    assert judge(*[2e-5] * 10)[-1] == Clear()
    assert isinstance(judge(*[math.nextafter(2e-5, 0)] * 10)[-1], Fired)
    assert isinstance(judge(*[2e-5] * 10, size=3.0)[-1], Fired)


@pytest.mark.parametrize("std", [math.nan, math.inf])
def test_nan_resets_the_count(std: float) -> None:
    results = judge(*[0.0] * 9, std, 0.0)
    assert [verdict.stage for verdict in results[-2:]] == ["no data", "suspected"]
    assert results[-1].why == "1 of 10 needed captures agree"


@pytest.mark.parametrize(("shape", "dtype"), [((1, 2), "float32"), ((), "float32"), ((8,), "int64")])
def test_unsuitable_outputs_are_undecided(shape: tuple[int, ...], dtype: str) -> None:
    assert isinstance(judge(*[0.0] * 10, shape=shape, dtype=dtype)[-1], Undecided)


def test_every_output_must_have_collapsed() -> None:
    infos = {name: TensorInfo(name, ("outputs",), (8, 2)) for name in ("Net_output_0", "Net_output_1")}
    both = {"Net_output_0": {"batch_std": 0.0, "abs_mean": 1.0}, "Net_output_1": {"batch_std": 1.0, "abs_mean": 1.0}}
    results = verdicts(OutputCollapse(), [Capture(step, both, infos=infos) for step in range(12)])
    assert {type(verdict) for _, verdict in results} == {Clear}


@pytest.mark.parametrize(("name", "value"), [("eps", 0.0), ("patience", 0)])
def test_invalid_parameters_are_rejected(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"output_collapse: {name} must be"):
        OutputCollapse(**{name: value})
