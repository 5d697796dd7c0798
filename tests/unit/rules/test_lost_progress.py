"""lost_progress: optimizers made anew and parameters initialized again, and states that were not loaded."""

from __future__ import annotations

import math

import pytest
from rule_scenarios import captured

from leadline.errors import ConfigurationError
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.tensors.lost_progress import LostProgress
from leadline.testing.windows import verdicts

ANEW, AGAIN, BIAS, LOADED = (
    "Adam/made_anew",
    "a.weight/initialized_again",
    "b.bias/initialized_again",
    "Adam/state_not_loaded",
)


def judge(values: dict[str, float], **parameters: int) -> Verdict:
    part = captured(0, {name: {"value": value} for name, value in values.items()})
    ((_, verdict),) = verdicts(LostProgress(**parameters), [part])
    return verdict


def test_fires_from_its_patience_on_optimizers_made_anew() -> None:
    assert judge({ANEW: 0.0}) == Clear()
    nearly = judge({ANEW: 2.0})
    assert isinstance(nearly, Undecided)
    assert (nearly.stage, nearly.why) == ("suspected", "2 of 3 needed optimizers agree")
    fired = judge({ANEW: 3.0})
    assert isinstance(fired, Fired)
    assert fired.message == (
        "Adam was made anew 3 times over the same parameters, and each began without the state of the one before"
    )
    assert (fired.tensors, fired.evidence) == ((ANEW,), {"made_anew": 3, "patience": 3})
    assert isinstance(judge({ANEW: 1.0}, patience=1), Fired)


def test_fires_from_its_patience_on_parameters_that_are_initialized_again() -> None:
    nearly = judge({ANEW: 0.0, AGAIN: 2.0})
    assert isinstance(nearly, Undecided)
    assert nearly.why == "2 of 3 needed initializations agree"
    fired = judge({ANEW: 0.0, AGAIN: 4.0, BIAS: 3.0})
    assert isinstance(fired, Fired)
    assert fired.message == (
        "a.weight, and 1 more parameter: initialized again 4 times between updates of their optimizer"
    )
    assert fired.tensors == (AGAIN, BIAS)
    alone = judge({ANEW: 0.0, AGAIN: 3.0, BIAS: 2.0})
    assert isinstance(alone, Fired)
    assert alone.tensors == (AGAIN,)


def test_a_schedule_that_was_not_loaded_is_remarked() -> None:
    verdict = judge({ANEW: 0.0, "Adam/schedule_not_loaded": 200.0})
    assert isinstance(verdict, Clear)
    (remark,) = verdict.product["remarks"]
    assert "its schedule began at step 0, although the file has the state of a schedule at step 200" in remark


def test_a_state_that_was_not_loaded_is_remarked() -> None:
    verdict = judge({ANEW: 0.0, LOADED: 1.0})
    assert isinstance(verdict, Clear)
    (remark,) = verdict.product["remarks"]
    assert remark.startswith("Adam began without a state, although the file that its model was loaded from has one")
    assert judge({ANEW: 0.0, LOADED: 0.0}) == Clear()


@pytest.mark.parametrize("values", [{ANEW: math.nan}, {LOADED: 0.0}, {LOADED: 1.0}])
def test_without_a_count_it_is_undecided(values: dict[str, float]) -> None:
    assert isinstance(judge(values), Undecided)


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="patience must be"):
        LostProgress(patience=0)
