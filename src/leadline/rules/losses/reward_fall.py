"""The rule reward_fall."""

from __future__ import annotations

from statistics import median
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import listed, significant
from leadline.records.metric_roles import (
    CLIPPED,
    ENTROPY,
    GRADIENT_NORM,
    KL,
    LENGTH,
    MISMATCH,
    RATE,
    REWARD,
    TRUNCATED,
    UPDATE_KL,
)
from leadline.rules import Advice, Clear, Fired, Severity, Verdict, Window
from leadline.rules.losses.logged_metrics import MIN_VALUES, Level, LoggedMetric, LoggedMetrics
from leadline.rules.losses.moved_metrics import Move, moves
from leadline.rules.losses.role_rule import RoleRule
from leadline.rules.messages import fired

_NOISES: Final = 3.0
"""Robust standard deviations of single values that a median of 20 must fall."""
_LOST: Final = 0.2
"""The share of the best level that must be lost, too: a fall by less is small, however even the values are."""
_OTHERS: Final = (KL, UPDATE_KL, ENTROPY, LENGTH, TRUNCATED, CLIPPED, MISMATCH, GRADIENT_NORM, RATE)
"""The roles of the metrics of which it says whether they moved."""
_MOST: Final = 4
"""The number of metrics that a message names."""
_ADVICE: Final = Advice(
    "the checkpoint of step {best} for what comes next, and a lower learning rate, fewer updates on the same samples "
    "or a stronger bound on the change of the policy; usually one of the updates was too large",
    "best",
)


class RewardFall(RoleRule, frozen=True, kw_only=True):
    """Fires when the reward of a policy has fallen far below its best level and stays there.

    Why it matters:
        What the policy had learned is lost, and samples that it draws now teach less than those it drew before.
    How it decides:
        A level is the median of 20 values in a row of a [logged metric](../metrics.md#roles) of the role ``reward``.
        Fires if the level now is below the best one by at least ``share`` of what the reward had gained since its first
        level, by a fifth of the best level's size, and by 3 robust standard deviations of single values (1.4826 times
        the median absolute deviation, the mean of that now and that at the best), all three. Undecided before 40
        values. It names what moved after the best step, in the order of time: logged divergences, entropy, length,
        shares that are clipped or cut off, the gradient norm and the learning rate, if two blocks in a row (at most 128
        are kept of a run) are away from the level of the 16 blocks before by 4 of their robust standard deviations
        and by a fifth.
    Not a number:
        Values that are NaN or infinite are not counted.
    Blind spots:
        Tasks that become harder on purpose (a curriculum), or a reward that is redefined, look the same. A level that
        has been lost for fewer than 10 values is not seen. What moves first need not be the cause.
    Args:
        share: The share of the gain that is lost, > 0 and <= 1.
    Source:
        Ours, the mirror of ``loss_spike``.
    """

    severity: ClassVar[Severity] = "advice"
    explains: ClassVar[tuple[str, ...]] = ("metric_not_improving",)
    roles: ClassVar[tuple[str, ...]] = (REWARD,)

    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5

    def remember(self, memory: Any, window: Window) -> LoggedMetrics:
        known = LoggedMetrics.noted(memory, window)
        for metric in known.here(window, *self.roles):
            metric.note_best()
        return known

    def judge(self, metrics: list[LoggedMetric], known: LoggedMetrics) -> Verdict:
        for metric in metrics:
            now, best = metric.level(), metric.best
            if now is not None and best is not None and self._has_fallen(metric, now, best):
                return self._fired(metric, now, best, moves(known.of(REWARD, *_OTHERS), best.step))
        return Clear()

    def _has_fallen(self, metric: LoggedMetric, now: Level, best: Level) -> bool:
        fall, gain = best.value - now.value, best.value - median(metric.first)
        noise = (now.noise + best.noise) / 2
        return fall > 0 and fall >= max(self.share * gain, _LOST * abs(best.value), _NOISES * noise)

    def _fired(self, metric: LoggedMetric, now: Level, best: Level, moved: list[Move]) -> Fired:
        others = [move for move in moved if move.metric.role != REWARD][:_MOST]
        shown = [str(move) for move in moved if move in others or move.metric is metric]
        return fired(
            f"{metric.name} fell from {significant(best.value)} at step {best.step} to {significant(now.value)}, the "
            f"medians of {MIN_VALUES} values each{f'; what moved, in this order: {listed(shown)}' if others else ''}",
            metric.name,
            *(move.metric.name for move in others),
            advice=_ADVICE.given(best=best.step),
            evidence={
                "best": best.value,
                "now": now.value,
                "best_step": best.step,
                "noise": now.noise,
                "moved": {move.metric.name: move.step for move in others},
            },
            worker=metric.worker,
            since_step=best.step,
        )
