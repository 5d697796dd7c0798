"""The rule entropy_collapse."""

from __future__ import annotations

import math
from statistics import median
from typing import Annotated, ClassVar, Final

import msgspec

from leadline.records.formatting import significant
from leadline.records.metric_roles import ENTROPY
from leadline.rules import Advice, Clear, Fired, Verdict
from leadline.rules.losses.logged_metrics import MIN_VALUES, LoggedMetric, LoggedMetrics
from leadline.rules.losses.role_rule import CONTINUOUS, RoleRule
from leadline.rules.messages import fired
from leadline.rules.robust import mann_kendall, theil_sen

_MIN_FOR_PACE: Final = 5 * MIN_VALUES
_HALF: Final = 0.5
"""The share that must be lost before a pace differs from the usual fall at the start."""
_P: Final = 0.01
"""Significance of a fall in the last half of the run."""
_ADVICE: Final = Advice(
    "a lower learning rate, an entropy bonus with the right sign, or a wider clip range upwards; usually one answer "
    "was reinforced before others were tried"
)


class EntropyCollapse(RoleRule, frozen=True, kw_only=True):
    """Fires when a policy has lost its entropy or soon will have, and its reward does not rise.

    Why it matters:
        A policy without entropy always does the same: it sees no other reward, so that nothing else is learned.
    How it decides:
        Looks at the [logged metrics](../metrics.md#roles) of the role ``entropy``, whatever their sign. Fires if the
        median of the last 20 values is at most ``share`` of the largest of the first 20, and the Mann-Kendall test
        finds no rise of the reward at 0.05 over the whole run, nor the rank-sum test one at 0.001 from its first 10
        values to the latest 20: a policy that has learned its task needs no entropy. Fires before that, from 100 values
        on, if half of the entropy is lost, the Mann-Kendall test finds a fall at 0.01 in the last half of the run, and
        at the pace of that half (the Theil-Sen slope of its logarithm) ``share`` is reached within as many steps as
        there were. Undecided before 40 values, and if it falls like that without a logged reward. Does not apply where
        no reward is logged otherwise, nor where the spread of continuous actions is logged, whose entropy may pass 0.
    Not a number:
        Values that are NaN or infinite are not counted.
    Blind spots:
        A policy whose reward rises a little while its entropy collapses. An entropy that is low from the start. How
        many steps the run will have. Of continuous actions the entropy is not known to be one where their spread is not
        logged.
    Args:
        share: The share of the entropy at the start that is too little, > 0 and < 1.
    Source:
        Ours; Cui et al., "The entropy mechanism of reinforcement learning for reasoning language models", 2025.
    """

    explains: ClassVar[tuple[str, ...]] = ("dead_groups", "no_gradient", "metric_not_improving")
    roles: ClassVar[tuple[str, ...]] = (ENTROPY,)
    not_with = CONTINUOUS
    is_of_policy = True

    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.05

    def judge(self, metrics: list[LoggedMetric], known: LoggedMetrics) -> Verdict:
        metric = min(metrics, key=_share_left)
        if _share_left(metric) > self.share and self._arrival(metric) is None:
            return Clear()
        return self.unless_the_reward_rises(metric, known, self._fired)

    def _arrival(self, metric: LoggedMetric) -> int | None:
        """Return the step at which the share will be reached at the pace of the last half; None: not soon."""
        left, begins, now = _share_left(metric), metric.blocks.begins, metric.latest[-1][0]
        if metric.count < _MIN_FOR_PACE or not self.share < left <= _HALF:
            return None
        sizes = [abs(mean) for mean in metric.blocks.last_half]
        if min(sizes) == 0 or mann_kendall(sizes).p_of_falling() >= _P:
            return None
        pace = theil_sen(begins[-len(sizes) :], [math.log(size) for size in sizes])
        steps = math.log(self.share / left) / pace if pace < 0 else math.inf
        return now + math.ceil(steps) if steps <= now - begins[0] else None

    def _fired(self, metric: LoggedMetric, reward: LoggedMetric) -> Fired:
        start, now, arrival = _largest_at_start(metric), median(metric.values), self._arrival(metric)
        soon = f" and will be {significant(self.share * start)} at step {arrival:,} at this pace" if arrival else ""
        return fired(
            f"{metric.name} fell from {significant(start)} to {significant(now)}{soon}, and the reward does not rise "
            f"({reward.course()})",
            metric.name,
            reward.name,
            advice=_ADVICE,
            evidence={"at_start": start, "now": now, "share": self.share, "values": metric.count},
            worker=metric.worker,
            since_step=metric.latest[0][0],
        )


def _largest_at_start(metric: LoggedMetric) -> float:
    """Return the value of the first 20 that is farthest from 0."""
    return max(metric.first, key=abs)


def _share_left(metric: LoggedMetric) -> float:
    """Return the latest entropy as a share of that at the start; 1 where there is none."""
    start = abs(_largest_at_start(metric)) if metric.first else 0.0
    return abs(median(metric.values)) / start if start and metric.latest else 1.0
