"""Remarks on the losses of a policy, on its episodes, and on its actions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from leadline.records.series import TensorInfo
from leadline.rules.losses.closing_remarks import ClosingRemarks
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

LOSS = TensorInfo("loss", ("losses",), ())
EPISODES = ("episodes", "longest_episode", "episodes_at_limit", "truncated_episodes")
ACTIONS = ("action_reach", "actions_within", "action_low", "action_high", "action_deviation")


def remarks(*steps: dict[str, float]) -> list[str]:
    """Return the remarks after steps at which these checks were captured."""
    checks = {name: TensorInfo(name, ("checks",), ()) for step in steps for name in step}
    infos = {"loss": LOSS} | checks
    parts = [
        Capture(at, {"loss": {"value": 1.0}} | {name: {"value": value} for name, value in step.items()}, infos=infos)
        for at, step in enumerate(steps)
    ]
    return list(verdicts(ClosingRemarks(), parts)[-1][1].product["remarks"])


def of_episodes(*numbers: float) -> list[str]:
    return remarks({}, {f"A2C/{check}": number for check, number in zip(EPISODES, numbers, strict=True)})


def of_actions(*numbers: float) -> list[str]:
    return remarks({f"PPO/{check}": number for check, number in zip(ACTIONS, numbers, strict=True)}, {})


def test_an_advantage_with_a_gradient_is_named_if_both_steps_show_it() -> None:
    moving = {"loss/has_moving_advantage": 1.0}
    assert remarks(moving, {}) == []
    (remark,) = remarks(moving, moving)
    assert remark.startswith("log-probabilities are multiplied by an error that has a gradient and is minimized itself")


def test_ratios_of_one_are_named() -> None:
    (remark,) = remarks({}, {"loss/is_ratio_one": 128.0})
    assert remark.startswith("all 128 ratios of new to old probabilities were exactly 1 at the second update")


def test_a_limit_of_steps_that_terminates_episodes_is_named() -> None:
    (remark,) = of_episodes(100, 40, 80, 0)
    assert remark.startswith(
        "80 of the latest 100 episodes ended after exactly 40 steps, none after more, and all as ter"
    )


@pytest.mark.parametrize(
    "numbers",
    [(100, 40, 80, 1), (100, 40, 49, 0), (9, 40, 9, 0), (100, 1, 100, 0), (100, 60, 1, 0)],
    ids=["truncated", "few at the limit", "few", "of one step", "goals reached earlier"],
)
def test_episodes_that_end_otherwise_are_not_named(numbers: Sequence[float]) -> None:
    assert of_episodes(*numbers) == []


def test_an_action_space_beyond_the_first_policy_is_named() -> None:
    (remark,) = of_actions(0.003, 0.5, 0.0, 1000.0, 1.0)
    assert remark.startswith(
        "an action is between 0 and 1000, but PPO begins with a normal distribution around 0 with a"
    )
    assert "deviation of 1, which reaches 0.3 % of the action space: bounds of -1 and 1" in remark
    (narrow,) = of_actions(1.0, 0.04, -0.05, 0.05, 1.0)
    assert "which is far wider than it, and 4.0 % of its draws lie within it" in narrow


@pytest.mark.parametrize("numbers", [(1.0, 0.95, -2, 2, 1), (1.0, 0.34, 0, 1, 1), (0.1, 0.1, 0, 30, 1)])
def test_an_action_space_that_the_first_policy_reaches_is_not_named(numbers: Sequence[float]) -> None:
    assert of_actions(*numbers) == []
