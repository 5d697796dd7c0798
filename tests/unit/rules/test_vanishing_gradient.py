"""vanishing_gradient: below the threshold, not on it."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import skipped

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.tensors.vanishing_gradient import VanishingGradient
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def judge(
    *means: float, threshold: float = 1e-7, is_incomplete: bool = False, shape: tuple[int, ...] = (4, 8)
) -> Fired | Clear | Undecided:
    """Return the verdict on gradients; the shape is that of the first one."""
    values = {f"gradient/{place}.weight": {"abs_mean": mean} for place, mean in enumerate(means)}
    shapes = dict.fromkeys(values, (4, 8)) | {"gradient/0.weight": shape}
    parts = [Capture(0, values)]
    ((_, verdict),) = verdicts(
        VanishingGradient(threshold=threshold), parts, is_incomplete=is_incomplete, shapes=shapes
    )
    return verdict


def test_fires_for_each_parameter_with_the_smallest_first() -> None:
    fired = judge(1e-8, 1.0, 1e-9)
    assert isinstance(fired, Fired)
    assert fired.message == "2.weight: mean absolute gradient 1e-9 is below 1e-7, and 1 more tensor"
    assert fired.tensors == ("gradient/2.weight", "gradient/0.weight")


def test_clear_exactly_on_its_bound() -> None:
    assert judge(1e-7) == Clear()
    assert isinstance(judge(math.nextafter(1e-7, 0)), Fired)


def test_nan_is_skipped() -> None:
    assert judge(math.nan, 1.0) == Clear()
    assert isinstance(judge(math.nan), Undecided)
    assert isinstance(judge(math.inf), Undecided)
    assert isinstance(judge(1.0, is_incomplete=True), Undecided)


@pytest.mark.parametrize("shape", [(64,), (4, 4)])
def test_vectors_and_small_tensors_are_not_evaluated(shape: tuple[int, ...]) -> None:
    assert judge(1e-12, 1.0, shape=shape) == Clear()
    assert isinstance(judge(1e-12, 1.0), Fired)


def test_gradients_that_are_all_small_have_not_vanished() -> None:
    assert judge(1e-8, 5e-8) == Clear()
    assert isinstance(judge(1e-12, 5e-8), Fired)


def test_a_gradient_of_zero_was_never_there() -> None:
    assert judge(0.0, 1.0) == Clear()


def test_only_gradients_are_evaluated() -> None:
    assert verdicts(VanishingGradient(), [Capture(0, {"a.weight": {"abs_mean": 0.0}})]) == []


def test_a_threshold_of_zero_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="vanishing_gradient: threshold must be a number > 0, not 0"):
        VanishingGradient(threshold=0.0)


def test_a_skipped_step_is_not_evaluated() -> None:
    gradient = Capture(0, {"gradient/a.weight": {"abs_mean": 0.0}})
    assert isinstance(verdicts(VanishingGradient(), [gradient, skipped(0)])[0][1], Undecided)
