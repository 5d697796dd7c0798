"""Contract tests of the rules on logged metrics by their roles."""

from __future__ import annotations

from rule_scenarios import captured

from leadline.rules.losses.broken_metric import BrokenMetric
from leadline.rules.losses.dead_groups import DeadGroups
from leadline.rules.losses.entropy_collapse import EntropyCollapse
from leadline.rules.losses.kl_divergence import KlDivergence
from leadline.rules.losses.policy_mismatch import PolicyMismatch
from leadline.rules.losses.reward_fall import RewardFall
from leadline.rules.losses.rising_entropy import RisingEntropy
from leadline.rules.losses.truncated_completions import TruncatedCompletions
from leadline.testing.contracts import RuleContract
from leadline.testing.runs import Capture


def rewarded(dead: float) -> tuple[Capture, ...]:
    values = {"frac_reward_zero_std": {"value": dead}, "reward": {"value": 0.1}}
    return tuple(captured(step, values) for step in range(25))


class TestDeadGroups(RuleContract):
    rule = DeadGroups
    fires_on = rewarded(0.95)
    silent_on = rewarded(0.4)


def of_policy(*, entropy: float, reward: float) -> tuple[Capture, ...]:
    """Return 25 steps with an entropy of 1 and a reward of 0.5, and as many with these."""
    return tuple(
        captured(step, {"entropy": {"value": 1.0 if step < 25 else entropy}, "reward": {"value": value}})
        for step in range(50)
        for value in [0.5 if step < 25 else reward]
    )


class TestEntropyCollapse(RuleContract):
    rule = EntropyCollapse
    fires_on = of_policy(entropy=0.04, reward=0.5)
    silent_on = of_policy(entropy=0.06, reward=0.5)


class TestRewardFall(RuleContract):
    rule = RewardFall
    fires_on = of_policy(entropy=1.0, reward=0.39)
    silent_on = of_policy(entropy=1.0, reward=0.41)


def cut_off(share: float) -> tuple[Capture, ...]:
    """Return 25 steps at which a quarter of the completions are cut off, and as many with this share."""
    values = [0.25] * 25 + [share] * 25
    return tuple(captured(step, {"completions/clipped_ratio": {"value": value}}) for step, value in enumerate(values))


class TestTruncatedCompletions(RuleContract):
    rule = TruncatedCompletions
    fires_on = cut_off(0.5)
    silent_on = cut_off(0.49)


def sampled(difference: float) -> tuple[Capture, ...]:
    """Return 25 steps at which sampler and trainer differ by 0.01, and as many with this difference."""
    values = [0.01] * 25 + [difference] * 25
    return tuple(captured(step, {"mismatch_kl/mean": {"value": value}}) for step, value in enumerate(values))


class TestPolicyMismatch(RuleContract):
    rule = PolicyMismatch
    fires_on = sampled(0.11)
    silent_on = sampled(0.024)


def diverged(divergence: float) -> tuple[Capture, ...]:
    """Return 25 steps with a divergence of 0.1, and as many with this one."""
    values = [0.1] * 25 + [divergence] * 25
    return tuple(captured(step, {"objective/kl": {"value": value}}) for step, value in enumerate(values))


class TestKlDivergence(RuleContract):
    rule = KlDivergence
    fires_on = diverged(-0.002)
    silent_on = diverged(-0.001)


def explored(pace: float) -> tuple[Capture, ...]:
    """Return 120 steps with an entropy that begins at 0.5 and rises by this much at each, and an equal reward."""
    values = [{"entropy": {"value": 0.5 + pace * step}, "reward": {"value": 0.5}} for step in range(120)]
    return tuple(captured(step, each) for step, each in enumerate(values))


class TestRisingEntropy(RuleContract):
    rule = RisingEntropy
    fires_on = explored(0.006)
    silent_on = explored(0.004)


def normed(norm: float) -> tuple[Capture, ...]:
    """Return 25 steps with a gradient norm of 1, and 15 with this one."""
    values = [1.0] * 25 + [norm] * 15
    return tuple(captured(step, {"grad_norm": {"value": value}}) for step, value in enumerate(values))


class TestBrokenMetric(RuleContract):
    rule = BrokenMetric
    fires_on = normed(0.0)
    silent_on = normed(1e-9)
