"""The rule broken_metric."""

from __future__ import annotations

from statistics import median
from typing import ClassVar, Final

from leadline.records.metric_roles import DEAD_GROUPS, GRADIENT_NORM, LOSS, SPREAD
from leadline.rules import Advice, Clear, Fired, Verdict
from leadline.rules.losses.logged_metrics import MIN_VALUES, LoggedMetric, LoggedMetrics
from leadline.rules.losses.role_rule import RoleRule
from leadline.rules.messages import fired, too_few

_IN_A_ROW: Final = 10
"""The values in a row that must be bad: a gradient scaler finds its scale by a few that are not finite."""
_LEAST: Final = 1e-3
"""A value below this may well become 0 when it is rounded for the log."""
_SHARE: Final = 0.1
"""The share of the values at the start below which one has faded away, and not fallen to 0."""
_NOT_A_NUMBER: Final = Advice(
    "the last checkpoint before it, and a look at the batch and the precision of that step; usually a value was too "
    "large for half precision, or the loss divides by zero or by no tokens"
)
_ZERO: Final = Advice(
    "a look at the batches since then, whether any of their labels counts; usually all of them are masked, or a "
    "trainer logs 0 in place of a loss that is NaN"
)


class BrokenMetric(RoleRule, frozen=True, kw_only=True):
    """Fires when a loss or gradient norm that the script logs becomes NaN or exactly 0, and stays so.

    Why it matters:
        Nothing is learned from there on. A trainer may log 0 where the loss is NaN, and goes on without a word.
    How it decides:
        Looks at the [logged metrics](../metrics.md#roles) of the roles ``loss`` and ``gradient_norm``. Fires if 10
        values in a row are NaN or infinite. Fires if 10 values in a row are exactly 0 after 20 that were not, and fell
        there at once: the last one before was above 0.001, and above a tenth of the median size of the first 20. Where
        shares of dead groups or spreads of rewards are logged, ``dead_groups`` judges zeros; where a logged reward has
        risen, there may be nothing more to learn. Undecided before 20 values.
    Not a number:
        This is what the rule detects.
    Blind spots:
        A loss that is 0 from the start, or in some of the logs only. What is logged every few hundred steps is found
        late.
    Source:
        Ours.
    """

    explains: ClassVar[tuple[str, ...]] = ("no_gradient", "metric_not_improving")
    roles: ClassVar[tuple[str, ...]] = (LOSS, GRADIENT_NORM)
    least: ClassVar[int] = 0

    @property
    def least_observations(self) -> int:
        return MIN_VALUES

    def judge(self, metrics: list[LoggedMetric], known: LoggedMetrics) -> Verdict:
        broken = next((metric for metric in metrics if metric.bad == "NaN" and metric.in_a_row >= _IN_A_ROW), None)
        if broken is not None:
            return self._fired(broken, "NaN or infinite", _NOT_A_NUMBER)
        fallen = next(filter(_has_fallen, metrics), None)
        reward = known.reward()
        may_be_learned = known.of(DEAD_GROUPS, SPREAD) or (
            reward is not None and (reward.has_risen() or reward.is_above_start())
        )
        if fallen is not None and not may_be_learned:
            return self._fired(fallen, "exactly 0", _ZERO)
        most = max(metrics, key=lambda metric: metric.count)
        return Clear() if most.count >= MIN_VALUES else too_few(most.count, MIN_VALUES, f"values of {most.name}")

    def _fired(self, metric: LoggedMetric, what: str, advice: Advice) -> Fired:
        before = f", and was {metric.before:.3g} before" if metric.first else ""
        return fired(
            f"{metric.name} has been {what} in each of its {metric.in_a_row} values since step {metric.bad_since:,}"
            f"{before}",
            metric.name,
            advice=advice,
            evidence={"values": metric.in_a_row, "since_step": metric.bad_since},
            worker=metric.worker,
            since_step=metric.bad_since,
        )


def _has_fallen(metric: LoggedMetric) -> bool:
    """Return whether a metric has been 0 for long enough, and was well above that before."""
    if metric.bad != "0" or metric.in_a_row < _IN_A_ROW or metric.count - metric.in_a_row < MIN_VALUES:
        return False
    return abs(metric.before) > max(_LEAST, _SHARE * median(map(abs, metric.first)))
