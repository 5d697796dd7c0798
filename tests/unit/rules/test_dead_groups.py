"""dead_groups: its share, the reward that tells a learned task from one that teaches nothing, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rule_scenarios import captured

from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.losses.dead_groups import DeadGroups
from leadline.testing.windows import verdicts

STUCK = [0.1] * 30


def judge(mode: str = "train", **metrics: Sequence[float]) -> list[Verdict]:
    names = {name.replace("__", "/"): values for name, values in metrics.items()}
    parts = [
        captured(step, {name: {"value": values[step]} for name, values in names.items()}, mode=mode)
        for step in range(len(next(iter(names.values()))))
    ]
    return [verdict for _, verdict in verdicts(DeadGroups(), parts)]


def test_fires_at_the_twentieth_value() -> None:
    results = judge(frac_reward_zero_std=[0.9] * 30, reward=STUCK)
    assert results[18] == Undecided("19 of 20 values of frac_reward_zero_std needed", stage="too few")
    found = results[19]
    assert isinstance(found, Fired)
    assert found.message == (
        "frac_reward_zero_std is 0.9 on average over the last 20 values: groups with equal rewards teach nothing, "
        "and dilute the loss of the others by a factor of 10, and the reward does not rise (reward 0.1 → 0.1)"
    )
    assert (found.since_step, found.tensors) == (0, ("frac_reward_zero_std", "reward"))


def test_some_dead_groups_are_usual() -> None:
    assert judge(frac_reward_zero_std=[0.49] * 30, reward=STUCK)[-1] == Clear()
    assert judge(frac_reward_zero_std=[1.0, 1.0, 1.0, *[0.0] * 27], reward=STUCK)[-1] == Clear()


def test_three_quarters_are_too_much_in_the_long_run() -> None:
    results = judge(frac_reward_zero_std=[0.75] * 100, reward=[0.1] * 100)
    remark = (
        "frac_reward_zero_std is 0.75 on average over the last 20 values: groups with equal rewards teach nothing, and "
        "dilute the loss of the others by a factor of 4"
    )
    assert results[98] == Clear({"remarks": [remark]})
    found = results[99]
    assert isinstance(found, Fired)
    assert found.message == f"{remark}, and the reward does not rise (reward 0.1 → 0.1)"
    learned = judge(frac_reward_zero_std=[0.75] * 100, reward=[0.001 * step for step in range(100)])
    assert learned[-1] == Clear({"remarks": [remark]})
    assert judge(frac_reward_zero_std=[0.74] * 100, reward=[0.1] * 100)[-1] != found


def test_a_task_that_was_learned_ends_with_equal_rewards() -> None:
    rising = [min(1.0, 0.1 + 0.03 * step) for step in range(60)]
    dead = [0.2 if value < 1 else 1.0 for value in rising]
    assert not any(isinstance(verdict, Fired) for verdict in judge(frac_reward_zero_std=dead, reward=rising))


def test_a_spread_of_exactly_0_stands_for_dead_groups() -> None:
    found = judge(reward_std=[0.0] * 20, reward=[0.1] * 20)[-1]
    assert isinstance(found, Fired)
    assert found.message.startswith("reward_std is exactly 0 at 20 of the last 20 values: ")
    assert judge(reward_std=[1e-9] * 20, reward=[0.1] * 20)[-1] == Clear()
    assert judge(reward_std=[0.0] * 20, frac_reward_zero_std=[0.1] * 20, reward=[0.1] * 20)[-1] == Clear()


def test_without_a_reward_it_names_what_is_missing() -> None:
    assert judge(frac_reward_zero_std=[1.0] * 20, accuracy=[0.5] * 20)[-1] == Undecided(
        "frac_reward_zero_std is judged together with a metric of the role reward, and none was logged; "
        "of unknown role: accuracy"
    )


def test_not_applicable_where_no_groups_are_logged() -> None:
    results = judge(rollout__ep_rew_mean=STUCK, train__loss=STUCK, mode="eval")
    assert {type(verdict) for verdict in results} == {NotApplicable}
    assert {type(verdict) for verdict in judge(loss=STUCK)} == {NotApplicable}


def test_values_that_are_no_numbers_are_not_counted() -> None:
    assert judge(frac_reward_zero_std=[math.nan] * 30, reward=STUCK)[-1] == Undecided(
        "0 of 20 values of frac_reward_zero_std needed", stage="too few"
    )
