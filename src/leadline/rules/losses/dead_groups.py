"""The rule dead_groups."""

from __future__ import annotations

from statistics import fmean
from typing import Annotated, ClassVar, Final

import msgspec

from leadline.records.formatting import significant
from leadline.records.metric_roles import DEAD_GROUPS, SPREAD
from leadline.rules import Advice, Clear, Fired, Verdict
from leadline.rules.losses.logged_metrics import MIN_VALUES, LoggedMetric, LoggedMetrics
from leadline.rules.losses.role_rule import RoleRule
from leadline.rules.messages import fired

_ADVICE: Final = Advice(
    "prompts of another difficulty, more completions for each prompt, or a reward with more levels; usually the task "
    "is far too hard or too easy for the model, or the reward function returns the same for every completion"
)
_MANY: Final = 5 * MIN_VALUES
_HALF: Final = 0.5
"""The share from which on it is remarked that groups are dead."""
_NEARLY_ALL: Final = 0.9
"""The share that is too much before there are many values."""


class DeadGroups(RoleRule, frozen=True, kw_only=True):
    """Fires when most groups of completions have equal rewards, and the reward does not rise.

    Why it matters:
        Where all completions of a prompt get the same reward, each has an advantage of 0: the group is generated and
        teaches nothing. In a mean over all groups it dilutes the loss of the others; if all are like that, loss and
        gradient are 0.
    How it decides:
        Looks at the [logged metric](../metrics.md#roles) of the role ``dead_groups``, the share of the groups whose
        rewards are all equal; without one at ``reward_spread``, which is exactly 0 where all rewards are equal. Fires
        if the mean share over the last 20 values is at least ``share`` (or at least that share of the last 20 spreads
        is 0), and the Mann-Kendall test finds no rise of the reward at 0.05 over the whole run, nor the rank-sum test
        one at 0.001 from its first 10 values to the latest 20; before 100 values the share must be at least 0.9, since
        a reward rises slowly at first. Otherwise it remarks at the end of the run,
        from a half on, how many groups teach nothing: a model that has learned its task ends with equal rewards.
        Undecided before 20 values, and if there are so many without a logged reward.
    Not a number:
        Values that are NaN or infinite are not counted.
    Blind spots:
        After the reward has risen, groups may be dead for another reason, which is only remarked. A model that solves
        its task from the start has nothing to learn, and is reported.
    Args:
        share: Mean share of dead groups that is too much, > 0 and <= 1.
    Source:
        Ours; Yu et al., "DAPO: an open-source LLM reinforcement learning system at scale", 2025 (dynamic sampling).
    """

    explains: ClassVar[tuple[str, ...]] = ("no_gradient", "metric_not_improving")
    roles: ClassVar[tuple[str, ...]] = (DEAD_GROUPS, SPREAD)
    least: ClassVar[int] = MIN_VALUES

    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.75

    def judge(self, metrics: list[LoggedMetric], known: LoggedMetrics) -> Verdict:
        shares = [metric for metric in metrics if metric.role == DEAD_GROUPS]
        metric = max(shares or metrics, key=_dead_share)
        dead = _dead_share(metric)
        if dead >= (self.share if metric.count >= _MANY else max(self.share, _NEARLY_ALL)):
            verdict = self.unless_the_reward_rises(metric, known, self._fired)
            if not isinstance(verdict, Clear):
                return verdict
        return Clear({"remarks": [_describe(metric)]}) if dead >= _HALF else Clear()

    def _fired(self, metric: LoggedMetric, reward: LoggedMetric) -> Fired:
        dead = _dead_share(metric)
        return fired(
            f"{_describe(metric)}, and the reward does not rise ({reward.course()})",
            metric.name,
            reward.name,
            advice=_ADVICE,
            evidence={"dead_share": dead, "threshold": self.share, "values": metric.count},
            worker=metric.worker,
            since_step=metric.latest[0][0],
        )


def _describe(metric: LoggedMetric) -> str:
    dead = _dead_share(metric)
    if metric.role != DEAD_GROUPS:
        return (
            f"{metric.name} is exactly 0 at {round(dead * MIN_VALUES)} of the last {MIN_VALUES} values: groups with "
            "equal rewards teach nothing"
        )
    diluted = f", and dilute the loss of the others by a factor of {significant(1 / (1 - dead))}" if dead < 1 else ""
    return (
        f"{metric.name} is {significant(dead)} on average over the last {MIN_VALUES} values: groups with equal rewards "
        f"teach nothing{diluted}"
    )


def _dead_share(metric: LoggedMetric) -> float:
    """Return the mean share of dead groups over the latest values."""
    if not metric.latest:
        return 0.0
    return fmean(value if metric.role == DEAD_GROUPS else float(value == 0) for value in metric.values)
