"""Rules on logged metrics of reinforcement learning: bounds, what excuses them, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from rule_scenarios import captured

from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules import Rule
from leadline.rules.losses.entropy_collapse import EntropyCollapse
from leadline.rules.losses.kl_divergence import KlDivergence
from leadline.rules.losses.policy_mismatch import PolicyMismatch
from leadline.rules.losses.reward_fall import RewardFall
from leadline.rules.losses.rising_entropy import RisingEntropy
from leadline.rules.losses.truncated_completions import TruncatedCompletions
from leadline.testing.windows import verdicts

FLAT = [0.3] * 60
RISING = [0.3 + 0.01 * step for step in range(60)]
COLLAPSE = [*[1.0] * 20, *[0.05] * 40]


def judge(rule: Rule, **metrics: Sequence[float]) -> list[Verdict]:
    names = {name.replace("__", "/"): values for name, values in metrics.items()}
    count = len(next(iter(names.values())))
    parts = [captured(step, {name: {"value": values[step]} for name, values in names.items()}) for step in range(count)]
    return [verdict for _, verdict in verdicts(rule, parts)]


def test_entropy_that_is_lost_without_a_rising_reward_fires_at_the_fortieth_value() -> None:
    results = judge(EntropyCollapse(), entropy=COLLAPSE, reward=FLAT)
    assert results[38] == Undecided("39 of 40 values of entropy needed", stage="too few")
    found = results[39]
    assert isinstance(found, Fired)
    assert found.message == "entropy fell from 1 to 0.05, and the reward does not rise (reward 0.3 → 0.3)"
    assert found.tensors == ("entropy", "reward")


def test_an_entropy_that_will_soon_be_lost_fires_with_its_arrival() -> None:
    flat, rising = [0.3] * 120, [0.3 + 0.01 * step for step in range(120)]
    fading = [2.0 * math.exp(-step / 50) for step in range(120)]
    results = judge(EntropyCollapse(), entropy=fading, reward=flat)
    assert results[98] == Clear()
    found = results[99]
    assert isinstance(found, Fired)
    assert found.message == (
        "entropy fell from 2 to 0.334 and will be 0.1 at step 160 at this pace, and the reward does not rise "
        "(reward 0.3 → 0.3)"
    )
    assert judge(EntropyCollapse(), entropy=fading, reward=rising)[-1] == Clear()
    slow = [2.0 * math.exp(-step / 140) for step in range(120)]
    assert judge(EntropyCollapse(), entropy=slow, reward=flat)[-1] == Clear()
    settled = [2.0] * 20 + [0.6] * 100
    assert judge(EntropyCollapse(), entropy=settled, reward=flat)[-1] == Clear()


def test_an_entropy_that_rises_fires_where_the_reward_does_not() -> None:
    flat, rising = [0.3] * 120, [0.3 + 0.01 * step for step in range(120)]
    explores = [-0.5 - 0.006 * step for step in range(120)]
    results = judge(RisingEntropy(), actor__entropy_loss=explores, reward=flat)
    assert results[98] == Undecided("99 of 100 values of actor/entropy_loss needed", stage="too few")
    found = results[-1]
    assert isinstance(found, Fired)
    assert found.message == (
        "actor/entropy_loss rose from -0.557 to -1.16, and the reward does not rise (reward 0.3 → 0.3)"
    )
    assert judge(RisingEntropy(), actor__entropy_loss=explores, reward=rising)[-1] == Clear()
    assert judge(RisingEntropy(), actor__entropy=[0.5] * 20 + [1.2] * 100, reward=flat)[-1] == Clear()
    assert (
        judge(RisingEntropy(), actor__entropy=[0.5 + 0.004 * step for step in range(120)], reward=flat)[-1] == Clear()
    )
    assert set(map(type, judge(RisingEntropy(), reward=flat))) == {NotApplicable}


def test_an_entropy_with_a_minus_sign_is_one() -> None:
    negative = [-value for value in COLLAPSE]
    found = judge(EntropyCollapse(), train__entropy_loss=negative, rollout__ep_rew_mean=FLAT)[-1]
    assert isinstance(found, Fired)


def test_a_policy_that_has_learned_its_task_needs_no_entropy() -> None:
    assert judge(EntropyCollapse(), entropy=COLLAPSE, reward=RISING)[-1] == Clear()
    assert judge(EntropyCollapse(), entropy=[*[1.0] * 20, *[0.051] * 40], reward=FLAT)[-1] == Clear()


@pytest.mark.parametrize(("gained", "is_found"), [(4.0, False), (0.0, True)])
def test_a_reward_that_rose_at_the_start_has_risen(gained: float, is_found: bool) -> None:
    """It falls a little ever since, so that the whole course does not rise."""
    reward = [*[0.4 + 0.01 * (step % 3) for step in range(10)], *[0.4 + gained - 0.0005 * step for step in range(110)]]
    found = judge(EntropyCollapse(), entropy=[*COLLAPSE, *[0.01] * 60], reward=reward)[-1]
    assert isinstance(found, Fired) is is_found


def test_without_a_reward_or_of_continuous_actions_the_entropy_is_not_judged() -> None:
    lacking = judge(EntropyCollapse(), entropy=COLLAPSE)[-1]
    assert isinstance(lacking, Undecided)
    assert "none was logged" in lacking.why
    continuous = judge(EntropyCollapse(), train__entropy_loss=COLLAPSE, train__std=COLLAPSE, reward=FLAT)
    assert set(map(type, continuous)) == {NotApplicable}
    assert set(map(type, judge(EntropyCollapse(), reward=FLAT))) == {NotApplicable}


def test_a_reward_that_is_lost_again_fires() -> None:
    lost = [*RISING, *[0.5] * 20]
    results = judge(RewardFall(), reward=lost)
    found = results[-1]
    assert isinstance(found, Fired)
    assert found.message == "reward fell from 0.795 at step 59 to 0.5, the medians of 20 values each"
    assert found.since_step == 59


def test_what_moved_before_a_reward_was_lost_is_named_in_the_order_of_time() -> None:
    reward = [*RISING, *[0.5] * 20]
    kl = [0.1 + 0.001 * (step % 3) for step in range(80)]
    rate = [1e-3] * 80
    entropy = [1.0 - 0.001 * (step % 2) for step in range(80)]
    for step in range(61, 80):
        rate[step] = 1e-2
    for step in range(64, 80):
        kl[step] += 0.5
    found = judge(RewardFall(), reward=reward, kl=kl, learning_rate=rate, entropy=entropy)[-1]
    assert isinstance(found, Fired)
    assert found.message == (
        "reward fell from 0.795 at step 59 to 0.5, the medians of 20 values each; what moved, in this order: reward "
        "from step 60 (0.815 → 0.5), learning_rate from step 61 (0.001 → 0.01) and kl from step 64 (0.101 → 0.601)"
    )
    assert found.tensors == ("reward", "learning_rate", "kl")
    assert found.evidence["moved"] == {"learning_rate": 61, "kl": 64}


def test_a_single_value_and_one_within_the_noise_have_not_moved() -> None:
    kl = [0.1 if step % 2 else 0.3 for step in range(80)]
    norm = [5.0 if step == 65 else 1.0 for step in range(80)]
    found = judge(RewardFall(), reward=[*RISING, *[0.5] * 20], kl=kl, grad_norm=norm)[-1]
    assert isinstance(found, Fired)
    assert found.message == "reward fell from 0.795 at step 59 to 0.5, the medians of 20 values each"


@pytest.mark.parametrize("level", [0.66, 0.9])
def test_less_than_half_of_the_gain_or_a_fifth_is_no_fall(level: float) -> None:
    assert judge(RewardFall(), reward=[*RISING, *[level] * 20])[-1] == Clear()


def test_a_fall_within_the_noise_is_none() -> None:
    noisy = [value + (0.5 if step % 2 else -0.5) for step, value in enumerate([*RISING, *[0.5] * 20])]
    assert judge(RewardFall(), reward=noisy)[-1] == Clear()


def test_a_reward_that_was_good_from_the_start_can_fall_too() -> None:
    found = judge(RewardFall(), reward=[*[0.9] * 30, *[0.7] * 20])[-1]
    assert isinstance(found, Fired)
    assert judge(RewardFall(), reward=[*[0.9] * 30, *[0.73] * 20])[-1] == Clear()
    assert isinstance(judge(RewardFall(), reward=[*[-100.0] * 30, *[-130.0] * 20])[-1], Fired)


def test_completions_that_do_not_end_any_more_fire() -> None:
    results = judge(TruncatedCompletions(), completions__clipped_ratio=[*[0.25] * 20, *[0.5] * 20])
    assert results[38] == Undecided("39 of 40 values of completions/clipped_ratio needed", stage="too few")
    found = results[39]
    assert isinstance(found, Fired)
    assert found.message == (
        "completions/clipped_ratio rose from 0.25 to 0.5, the means of 20 values each: so many completions end at the "
        "maximum length"
    )
    assert judge(TruncatedCompletions(), completions__clipped_ratio=[*[0.2] * 20, *[0.49] * 20])[-1] == Clear()


def test_completions_that_never_ended_are_remarked() -> None:
    verdict = judge(TruncatedCompletions(), completions__clipped_ratio=[1.0] * 40)[-1]
    assert isinstance(verdict, Clear)
    assert verdict.product["remarks"] == [
        "completions/clipped_ratio is 1 on average over the last 20 values, and was 1 at the start: so many "
        "completions are cut off at the maximum length"
    ]
    assert set(map(type, judge(TruncatedCompletions(), reward=FLAT))) == {NotApplicable}


def test_a_sampler_with_another_policy_fires_at_the_twentieth_value() -> None:
    results = judge(PolicyMismatch(), sampling__sampling_logp_difference__mean=[0.11] * 20)
    assert results[18] == Undecided("19 of 20 values of sampling/sampling_logp_difference/mean needed", stage="too few")
    found = results[19]
    assert isinstance(found, Fired)
    assert found.message == (
        "sampling/sampling_logp_difference/mean is 0.11, the median of the last 20 values, above 0.1: the policy that "
        "samples is not the one that is trained"
    )
    assert judge(PolicyMismatch(), sampling__sampling_logp_difference__mean=[0.1] * 20)[-1] == Clear()


def test_a_sampler_that_drifts_away_fires() -> None:
    found = judge(PolicyMismatch(), mismatch_kl__mean=[0.01] * 20 + [0.01 + 0.001 * step for step in range(30)])[-1]
    assert isinstance(found, Fired)
    assert found.message == (
        "mismatch_kl/mean rose from 0.01 to 0.0295, the medians of 20 values each: the policy that samples drifts away "
        "from the one that is trained"
    )
    assert judge(PolicyMismatch(), mismatch_kl__mean=[0.004] * 20 + [0.025] * 20)[-1] == Clear()
    assert judge(PolicyMismatch(), mismatch_kl__mean=[0.02] * 20 + [0.039] * 20)[-1] == Clear()
    assert judge(PolicyMismatch(), mismatch_kl__mean=[0.01, 0.03] * 15 + [0.03] * 10)[-1] == Clear()
    assert set(map(type, judge(PolicyMismatch(), reward=FLAT))) == {NotApplicable}


def test_a_divergence_that_is_negative_fires() -> None:
    found = judge(KlDivergence(), objective__kl=[0.1] * 20 + [-0.002] * 20)[-1]
    assert isinstance(found, Fired)
    assert found.message == (
        "objective/kl is negative in each of the last 20 values, and -0.002 in their median, which no divergence is: "
        "the samples are not those of the policy"
    )
    assert judge(KlDivergence(), objective__kl=[0.1] * 20 + [-0.002] * 19 + [0.0])[-1] == Clear()
    assert judge(KlDivergence(), objective__kl=[-0.001] * 40)[-1] == Clear()
    assert set(map(type, judge(KlDivergence(), losses__approx_kl=[-1.0] * 40))) == {NotApplicable}


def test_a_divergence_that_runs_away_fires_where_the_reward_does_not_rise() -> None:
    away = [1e-3 * 1.08**step for step in range(100)]
    flat, rising = [0.3] * 100, [0.3 + 0.01 * step for step in range(100)]
    results = judge(KlDivergence(), objective__kl=away, reward=flat)
    assert results[98] == Clear()
    found = results[99]
    assert isinstance(found, Fired)
    assert found.message == (
        "objective/kl grew from 0.00208 to 0.981, and faster and faster, while the reward does not rise "
        "(reward 0.3 → 0.3)"
    )
    assert found.tensors == ("objective/kl", "reward")
    assert judge(KlDivergence(), objective__kl=away, reward=rising)[-1] == Clear()
    assert judge(KlDivergence(), objective__kl=[0.01 * step for step in range(100)], reward=flat)[-1] == Clear()
    assert judge(KlDivergence(), objective__kl=[0.1 * value for value in away], reward=flat)[-1] == Clear()
    lacking = judge(KlDivergence(), objective__kl=away)[-1]
    assert isinstance(lacking, Undecided)
    assert "judged together with a metric of the role reward" in lacking.why


def test_few_values_and_values_that_are_no_numbers() -> None:
    assert judge(RewardFall(), reward=FLAT[:39])[-1] == Undecided("39 of 40 values of reward needed", stage="too few")
    assert judge(RewardFall(), reward=[math.nan] * 50)[-1] == Undecided(
        "0 of 40 values of reward needed", stage="too few"
    )
    assert set(map(type, judge(RewardFall(), entropy=FLAT))) == {NotApplicable}


@pytest.mark.parametrize("rule", [EntropyCollapse(), RisingEntropy()])
def test_an_entropy_beside_which_no_reward_is_logged_may_not_be_that_of_a_policy(rule: Rule) -> None:
    results = judge(rule, entropy=[1.0 - 0.002 * step for step in range(200)])
    assert set(map(type, results)) == {NotApplicable}
    assert judge(rule, entropy=[1.0 - 0.002 * step for step in range(200)], reward=[0.0] * 200)[-1] == Clear()
