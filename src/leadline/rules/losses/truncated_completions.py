"""The rule truncated_completions."""

from __future__ import annotations

from statistics import fmean
from typing import Annotated, ClassVar, Final

import msgspec

from leadline.records.formatting import significant
from leadline.records.metric_roles import TRUNCATED
from leadline.rules import Advice, Clear, Fired, Severity, Verdict
from leadline.rules.losses.logged_metrics import MIN_VALUES, LoggedMetric, LoggedMetrics
from leadline.rules.losses.role_rule import RoleRule
from leadline.rules.messages import fired

_FEW: Final = 0.5
"""The share of the bound below which completions ended before."""
_ADVICE: Final = Advice(
    "a higher maximum length, a penalty for length, or leaving truncated completions out of the loss; usually the "
    "reward grows with the length, or truncated completions get the reward of complete ones"
)


class TruncatedCompletions(RoleRule, frozen=True, kw_only=True):
    """Fires when completions end at the maximum length that had ended by themselves before.

    Why it matters:
        A completion that is cut off has no end: its answer is missing, its reward is that of a part, and the policy
        learns not to end.
    How it decides:
        Looks at the [logged metrics](../metrics.md#roles) of the role ``truncated_share``. Fires if the mean of the
        last 20 values is at least ``share``, and that of the first 20 was at most half of ``share``. Where the first
        ones were above that, too, it remarks at the end of the run that so many are cut off: a limit may be meant.
        Undecided before 40 values.
    Not a number:
        Values that are NaN or infinite are not counted.
    Blind spots:
        What is cut off after evaluation, and limits that are not logged.
    Args:
        share: The share of truncated completions that is too much, > 0 and <= 1.
    Source:
        Ours; Yu et al., "DAPO: an open-source LLM reinforcement learning system at scale", 2025 (overlong reward
        shaping).
    """

    severity: ClassVar[Severity] = "advice"
    roles: ClassVar[tuple[str, ...]] = (TRUNCATED,)

    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5

    def judge(self, metrics: list[LoggedMetric], known: LoggedMetrics) -> Verdict:
        worst = max(metrics, key=lambda metric: fmean(metric.values))
        if fmean(worst.values) < self.share:
            return Clear()
        if fmean(worst.first) > _FEW * self.share:
            return Clear({"remarks": [_remark(worst)]})
        return self._fired(worst)

    def _fired(self, metric: LoggedMetric) -> Fired:
        start, now = fmean(metric.first), fmean(metric.values)
        return fired(
            f"{metric.name} rose from {significant(start)} to {significant(now)}, the means of {MIN_VALUES} values "
            "each: so many completions end at the maximum length",
            metric.name,
            advice=_ADVICE,
            evidence={"at_start": start, "now": now, "share": self.share, "values": metric.count},
            worker=metric.worker,
            since_step=metric.latest[0][0],
        )


def _remark(metric: LoggedMetric) -> str:
    return (
        f"{metric.name} is {significant(fmean(metric.values))} on average over the last {MIN_VALUES} values, and was "
        f"{significant(fmean(metric.first))} at the start: so many completions are cut off at the maximum length"
    )
