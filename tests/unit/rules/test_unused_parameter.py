"""unused_parameter: parameters without gradients and changes, and the number of steps."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.unused_parameter import UnusedParameter
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts


def held(step: int, checksum: float = 7.0, gradient: float | None = None, *, is_held: bool = True) -> Capture:
    tensors = {"a.weight": {"checksum": checksum} | ({"update_ratio": 0.0} if is_held else {})}
    if gradient is not None:
        tensors["gradient/a.weight"] = {"abs_max": gradient}
    return captured(step, tensors)


def judge(*parts: Capture, **settings: bool) -> list[Verdict]:
    return [verdict for _, verdict in verdicts(UnusedParameter(), parts, **settings)]


def test_fires_once_the_steps_have_passed() -> None:
    assert [type(verdict) for verdict in judge(held(0), held(49))] == [Undecided, Undecided]
    results = judge(held(0), held(50))
    assert isinstance(results[-1], Fired)
    assert (
        results[-1].message
        == "a.weight: no gradient at each of 2 captured steps (0 to 50), though an optimizer holds it"
    )


@pytest.mark.parametrize("gradient", [1.0, 0.0, math.nan])
def test_one_gradient_is_enough(gradient: float) -> None:
    assert judge(held(0, gradient=gradient), held(50))[-1] == Clear()
    assert judge(held(0), held(50, gradient=gradient))[-1] == Clear()


def test_a_change_shows_gradients_between_captures() -> None:
    assert judge(held(0), held(50, 8.0), held(100, 8.0))[1:] == [Clear(), Clear()]


def test_parameters_outside_any_optimizer_are_not_evaluated() -> None:
    assert isinstance(judge(held(0, is_held=False), held(50, is_held=False))[-1], Undecided)


def test_the_finding_closes_when_the_parameter_is_used() -> None:
    assert [type(verdict) for verdict in judge(held(0), held(50), held(100, gradient=1.0))][1:] == [Fired, Clear]


def test_clear_is_undecided_with_incomplete_data() -> None:
    assert isinstance(judge(held(0, gradient=1.0), held(50), is_incomplete=True)[-1], Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="unused_parameter: steps must be"):
        UnusedParameter(steps=0)
