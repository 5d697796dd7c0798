"""The rule rising_entropy."""

from __future__ import annotations

from statistics import median
from typing import ClassVar, Final

from leadline.records.formatting import significant
from leadline.records.metric_roles import ENTROPY
from leadline.rules import Advice, Clear, Fired, Severity, Verdict
from leadline.rules.bounds import PositiveFloat
from leadline.rules.losses.logged_metrics import MIN_VALUES, LoggedMetric, LoggedMetrics
from leadline.rules.losses.role_rule import CONTINUOUS, RoleRule
from leadline.rules.messages import fired
from leadline.rules.robust import mann_kendall

_P: Final = 0.01
"""Significance of a rise of the entropy."""
_ADVICE: Final = Advice(
    "a smaller weight of the entropy bonus, a narrower clip range upwards, or a lower learning rate; usually unlikely "
    "answers are reinforced more than the reward can hold together"
)


class RisingEntropy(RoleRule, frozen=True, kw_only=True):
    """Fires when the entropy of a policy rises far above that at the start, and its reward does not rise.

    Why it matters:
        A policy that becomes more and more random forgets what it knew; samples at random teach little.
    How it decides:
        Looks at the [logged metrics](../metrics.md#roles) of the role ``entropy``, whatever their sign. Fires, from 100
        values on, if the median of the last 20 is at least ``factor`` times that of the first 20, the Mann-Kendall test
        finds a rise at 0.01 in the last half of the run, and no rise of the reward at 0.05 in that half: where both
        rise, the policy explores with success. Undecided before 100 values, and if it rises like that without a logged
        reward. Does not apply where no reward is logged otherwise, nor where the spread of continuous actions is
        logged, whose entropy may pass 0.
    Not a number:
        Values that are NaN or infinite are not counted.
    Blind spots:
        An entropy that is high from the start. A rise that ends in the first half of the run.
    Args:
        factor: How many times as large as at the start is too large, > 0.
    Source:
        Ours; reports of an entropy that rises after a wider clip range upwards (verl-project/verl#2738).
    """

    severity: ClassVar[Severity] = "advice"
    explains: ClassVar[tuple[str, ...]] = ("reward_fall", "metric_not_improving")
    roles: ClassVar[tuple[str, ...]] = (ENTROPY,)
    least: ClassVar[int] = 5 * MIN_VALUES
    not_with = CONTINUOUS
    is_of_policy = True

    factor: PositiveFloat = 2.0

    def judge(self, metrics: list[LoggedMetric], known: LoggedMetrics) -> Verdict:
        rising = next(filter(self._rises, metrics), None)
        return Clear() if rising is None else self.unless_the_reward_rises(rising, known, self._fired, lately=True)

    def _rises(self, metric: LoggedMetric) -> bool:
        start, now = abs(median(metric.first)), abs(median(metric.values))
        sizes = [abs(mean) for mean in metric.blocks.last_half]
        return now > 0 and now >= self.factor * start and mann_kendall(sizes).p_of_rising() < _P

    def _fired(self, metric: LoggedMetric, reward: LoggedMetric) -> Fired:
        start, now = median(metric.first), median(metric.values)
        return fired(
            f"{metric.name} rose from {significant(start)} to {significant(now)}, and the reward does not rise "
            f"({reward.course()})",
            metric.name,
            reward.name,
            advice=_ADVICE,
            evidence={"at_start": start, "now": now, "factor": self.factor, "values": metric.count},
            worker=metric.worker,
            since_step=metric.latest[0][0],
        )
