"""The rule kl_divergence."""

from __future__ import annotations

from statistics import median
from typing import ClassVar, Final

from leadline.records.formatting import significant
from leadline.records.metric_roles import KL
from leadline.rules import Advice, Clear, Fired, Verdict
from leadline.rules.bounds import PositiveFloat
from leadline.rules.losses.logged_metrics import MIN_VALUES, LoggedMetric, LoggedMetrics
from leadline.rules.losses.role_rule import RoleRule
from leadline.rules.messages import fired

_BELOW: Final = -1e-3
"""A divergence that is less negative may be so by rounding."""
_MIN_FOR_GROWTH: Final = 5 * MIN_VALUES
_LARGE: Final = 0.1
"""A divergence below this is small, whatever it was before."""
_FASTER: Final = 2.0
"""The growth of the second half of the run, in that of the first half."""
_NEGATIVE: Final = Advice(
    "samples that are drawn from the policy as it is trained, without a temperature, a minimum length or tokens that "
    "are taken out, and the same mask for both models; usually the sampler draws what the policy itself would not"
)
_GROWS: Final = Advice(
    "a larger weight of the divergence, with the right sign, or a lower learning rate; usually the policy is driven "
    "away from its start by something that the reward does not measure"
)


class KlDivergence(RoleRule, frozen=True, kw_only=True):
    """Fires when a KL divergence is negative, or grows faster and faster while the reward does not rise.

    Why it matters:
        A divergence is never negative: if its estimate is, the samples are not those of the policy, and all else that
        is computed from them is wrong, too. A policy that runs away from its reference forgets what that one knew.
    How it decides:
        Looks at the [logged metrics](../metrics.md#roles) of the role ``kl``, the divergence from a reference. Some
        estimates of it are negative in single batches, none is on average. Fires if the last 20 values are all negative
        and their median is below -0.001. Fires, from 100 values on, if the median of the last 20 is above 0.1, at least
        ``growth`` times the largest of the first 20, and has grown in the second half of the run by at least twice as
        much as in the first, while the Mann-Kendall test finds no rise of the reward at 0.05 in the last half.
        Undecided before 40 values, and if it grows like that without a logged reward.
    Not a number:
        Values that are NaN or infinite are not counted.
    Blind spots:
        A divergence that grows steadily, by the same amount in each step, and one that is large from the start. An
        estimate that is wrong and positive. The divergence between two updates (the role ``update_kl``) is not looked
        at: it is estimated from the samples of the update itself, and may be negative.
    Args:
        growth: How many times as large as at the start is too large, > 0.
    Source:
        Ours; Schulman, "Approximating KL divergence", 2020.
    """

    explains: ClassVar[tuple[str, ...]] = ("reward_fall", "metric_not_improving")
    roles: ClassVar[tuple[str, ...]] = (KL,)

    growth: PositiveFloat = 10.0

    def judge(self, metrics: list[LoggedMetric], known: LoggedMetrics) -> Verdict:
        for metric in metrics:
            if max(metric.values) < 0 and median(metric.values) < _BELOW:
                return self._fired(
                    metric,
                    f"{metric.name} is negative in each of the last {MIN_VALUES} values, and "
                    f"{significant(median(metric.values))} in their median, which no divergence is: the samples are "
                    "not those of the policy",
                    _NEGATIVE,
                )
        growing = next(filter(self._runs_away, metrics), None)
        return Clear() if growing is None else self.unless_the_reward_rises(growing, known, self._grown, lately=True)

    def _runs_away(self, metric: LoggedMetric) -> bool:
        now, means = median(metric.values), metric.blocks.means
        if metric.count < _MIN_FOR_GROWTH or now <= max(_LARGE, self.growth * max(metric.first)):
            return False
        halfway = median(means[len(means) * 2 // 5 : len(means) * 3 // 5])
        return now - halfway >= _FASTER * (halfway - median(metric.first))

    def _grown(self, metric: LoggedMetric, reward: LoggedMetric) -> Fired:
        start, now = median(metric.first), median(metric.values)
        return self._fired(
            metric,
            f"{metric.name} grew from {significant(start)} to {significant(now)}, and faster and faster, while the "
            f"reward does not rise ({reward.course()})",
            _GROWS,
            reward.name,
        )

    def _fired(self, metric: LoggedMetric, message: str, advice: Advice, *others: str) -> Fired:
        return fired(
            message,
            metric.name,
            *others,
            advice=advice,
            evidence={"at_start": median(metric.first), "now": median(metric.values), "values": metric.count},
            worker=metric.worker,
            since_step=metric.latest[0][0],
        )
