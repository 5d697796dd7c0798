"""The rule policy_mismatch."""

from __future__ import annotations

from statistics import median
from typing import ClassVar, Final

from leadline.records.formatting import exact, significant
from leadline.records.metric_roles import MISMATCH
from leadline.rules import Advice, Clear, Fired, Verdict
from leadline.rules.bounds import PositiveFloat
from leadline.rules.losses.logged_metrics import MIN_VALUES, LoggedMetric, LoggedMetrics
from leadline.rules.losses.role_rule import RoleRule
from leadline.rules.messages import fired

_GROWTH: Final = 2.0
"""The factor by which a difference that rises must have grown."""
_SMALL: Final = 0.25
"""The share of the bound below which a difference is small, though it rises."""
_P: Final = 0.01
"""Significance of a rise."""
_ADVICE: Final = Advice(
    "the temperature, the precision and the latest weights of the trainer for the sampler, or a correction by the "
    "ratio of both; usually one of them has another temperature, or the sampler has old weights"
)


class PolicyMismatch(RoleRule, frozen=True, kw_only=True):
    """Fires when the policy that samples is not the one that is trained: they give the same tokens other probabilities.

    Why it matters:
        A policy gradient is that of the policy that drew the samples. Samples of another one lead it astray, at first a
        little, until the training derails.
    How it decides:
        Looks at the [logged metrics](../metrics.md#roles) of the role ``logprob_difference``: the mean absolute
        difference of log-probabilities, or a divergence, which is 0 where sampler and trainer agree. Fires if the
        median of the last 20 values is above ``limit``; or if it is above a quarter of ``limit``, at least twice that
        of the first 20, and the Mann-Kendall test finds a rise at 0.01 over the whole run. Undecided before 20 values
        of a level, and before 40 of a rise.
    Not a number:
        Values that are NaN or infinite are not counted.
    Blind spots:
        A mean is small where single tokens differ very much, and it is large where few of them do. A divergence of 0.1
        is a larger difference than one of log-probabilities. Mixtures of experts and samplers in 8 bits may be above
        the limit without a mistake, and so may those that are several updates behind on purpose.
    Args:
        limit: The difference that is too large, > 0.
    Source:
        Ours. Differences of 0.01 to 0.04 are reported from healthy trainings (vllm-project/vime#64, where 0.011 rose to
        0.036 with a sampler that went astray). The tests of slime fail above 0.1, those of NeMo-RL above a factor of
        1.1 between probabilities, and the documentation of verl calls a divergence above 0.1 significant.
    """

    explains: ClassVar[tuple[str, ...]] = ("reward_fall", "entropy_collapse", "metric_not_improving")
    roles: ClassVar[tuple[str, ...]] = (MISMATCH,)
    least: ClassVar[int] = MIN_VALUES

    limit: PositiveFloat = 0.1

    @property
    def least_observations(self) -> int:
        return 2 * MIN_VALUES

    def judge(self, metrics: list[LoggedMetric], known: LoggedMetrics) -> Verdict:
        worst = max(metrics, key=lambda metric: median(metric.values))
        if median(worst.values) > self.limit:
            return self._fired(
                worst,
                f"is {significant(median(worst.values))}, the median of the last {MIN_VALUES} values, above "
                f"{exact(self.limit)}: the policy that samples is not the one that is trained",
            )
        rising = next(filter(self._rises, metrics), None)
        if rising is None:
            return Clear()
        start, now = median(rising.first), median(rising.values)
        return self._fired(
            rising,
            f"rose from {significant(start)} to {significant(now)}, the medians of {MIN_VALUES} values each: "
            "the policy that samples drifts away from the one that is trained",
        )

    def _rises(self, metric: LoggedMetric) -> bool:
        start, now = median(metric.first), median(metric.values)
        is_large = metric.count >= 2 * MIN_VALUES and now > _SMALL * self.limit and now >= _GROWTH * start
        return is_large and metric.has_risen(_P)

    def _fired(self, metric: LoggedMetric, what: str) -> Fired:
        return fired(
            f"{metric.name} {what}",
            metric.name,
            advice=_ADVICE,
            evidence={
                "at_start": median(metric.first),
                "now": median(metric.values),
                "threshold": self.limit,
                "values": metric.count,
            },
            worker=metric.worker,
            since_step=metric.latest[0][0],
        )
