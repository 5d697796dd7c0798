"""Base class of the rules on what a script logs of reinforcement learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from leadline.records.metric_roles import ACTION_SPREAD, REWARD
from leadline.rules import Clear, Fired, Needs, NotApplicable, Rule, Verdict, Window
from leadline.rules.losses.logged_metrics import MIN_VALUES, NEEDS, LoggedMetric, LoggedMetrics
from leadline.rules.messages import too_few

CONTINUOUS: Final = {ACTION_SPREAD: "the actions are continuous: their entropy may pass 0"}
"""Where rules on the entropy do not apply."""


class RoleRule(Rule, frozen=True, kw_only=True):
    """A rule on metrics with a role: their first 20 values and the latest 20, often together with the reward's course.

    Attributes:
        roles: The roles of the metrics; of several, one must be logged.
        not_with: The roles of which none must be logged for the rule to apply, with the reason.
        least: The number of values before which a metric is not looked at.
        is_of_policy: Whether without a logged reward there may be no policy: supervised trainings log an entropy, too.
    """

    roles: ClassVar[tuple[str, ...]]
    not_with: ClassVar[Mapping[str, str]] = {}
    least: ClassVar[int] = 2 * MIN_VALUES
    is_of_policy: ClassVar[bool] = False

    def needs(self) -> Needs:
        return NEEDS

    @property
    def least_observations(self) -> int:
        return self.least

    def remember(self, memory: Any, window: Window) -> LoggedMetrics:
        return LoggedMetrics.noted(memory, window)

    def evaluate(self, window: Window) -> Verdict:
        known: LoggedMetrics = window.memory
        for role, reason in self.not_with.items():
            if known.of(role):
                return NotApplicable(reason)
        metrics = list(known.here(window, *self.roles))
        if not metrics:
            return known.absent(*self.roles)
        complete = [metric for metric in metrics if metric.count >= self.least]
        most = max(metrics, key=lambda metric: metric.count)
        few = too_few(most.count, self.least, f"values of {most.name}")
        verdict = self.judge(complete, known) if complete else few
        if self.is_of_policy and known.reward() is None and (verdict is few or isinstance(verdict, Clear)):
            return NotApplicable(f"no reward was logged, so that {most.name} may not be that of a policy")
        return verdict

    def judge(self, metrics: list[LoggedMetric], known: LoggedMetrics) -> Verdict:
        """Return the verdict on the metrics of a step that have at least ``least`` values."""
        raise NotImplementedError

    def unless_the_reward_rises(
        self,
        metric: LoggedMetric,
        known: LoggedMetrics,
        found: Callable[[LoggedMetric, LoggedMetric], Fired],
        *,
        lately: bool = False,
    ) -> Verdict:
        """Return what is found in a metric and the reward, unless the reward has risen; undecided without a reward.

        Args:
            lately: Whether the reward must have risen in the last half of the run to be an excuse.
        """
        reward = known.reward()
        if reward is None:
            return known.lacking(REWARD, metric)
        has_risen = reward.has_risen(lately=lately) or (not lately and reward.is_above_start())
        return Clear() if reward.count < MIN_VALUES or has_risen else found(metric, reward)
