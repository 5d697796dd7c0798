"""all_zero: the share of zeros, of arrays and single numbers."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import skipped

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.series import TensorInfo
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.all_zero import AllZero
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

GRADIENT = "gradient/fc.weight"


def judge(values: dict[str, dict[str, float]], **parameters: object) -> Fired | Clear | Undecided:
    rule = AllZero(**{"collection_names": ("gradients", "losses"), **parameters})
    ((_, verdict),) = verdicts(rule, [Capture(3, values)], shapes={GRADIENT: (100, 10)})
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
    gradient = Capture(3, {GRADIENT: {"zero_ratio": 1.0}})
    assert isinstance(verdicts(rule, [gradient])[0][1], Fired)
    assert verdicts(rule, [gradient, skipped(3)])[0][1] == Clear()


@pytest.mark.parametrize("name", [GRADIENT, "fc.weight", "fc.bias"])
def test_parameters_may_start_with_zeros(name: str) -> None:
    parts = [Capture(step, {name: {"zero_ratio": 1.0}}) for step in range(4)]
    found = [type(verdict) for _, verdict in verdicts(AllZero(tensor_regex=("fc",)), parts)]
    assert found == [Clear, Clear, Clear, Fired]


@pytest.mark.parametrize(
    ("shape", "dtype", "verdict"),
    [((20,), "float32", Fired), ((19,), "float32", Clear), ((64,), "int64", Clear), ((64,), "bfloat16", Fired)],
)
def test_small_tensors_and_whole_numbers_are_not_evaluated(
    shape: tuple[int, ...], dtype: str, verdict: type[Verdict]
) -> None:
    infos = {"relu_output_0": TensorInfo("relu_output_0", ("layers", "relu_output"), shape, dtype)}
    parts = [Capture(0, {"relu_output_0": {"zero_ratio": 1.0}}, infos=infos)]
    assert isinstance(verdicts(AllZero(collection_names=("relu_output",)), parts)[0][1], verdict)
