"""The rule loss_spike."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import median
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import counted, significant
from leadline.records.metric_roles import REWARD, role_in
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    NotApplicable,
    Rule,
    TensorNeed,
    TensorReading,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.bounds import PositiveFloat, PositiveInt
from leadline.rules.messages import fired, suspected, too_few
from leadline.rules.robust import NORMAL_MAD, finite, mad, mann_kendall

_MIN_LOSSES: Final = 20
"""Earlier losses that are required."""
_LOGGED: Final = ("metrics", "scalars")
_P: Final = 0.05
"""The significance of a fall."""
_MIN_TREND: Final = 5
_LOWER: Final = 0.9
"""The second half of the high losses is below this share of the first, above the level before, while they fall."""
_UNDONE_SHARE: Final = 0.1
"""A spike undoes at least this share of what was learned."""
_ADVICE: Final = Advice(
    "the last checkpoint before it with half the learning rate, or clip gradients; usually the rate is too high, or a "
    "batch is an outlier"
)


@dataclass(slots=True)
class _Known:
    """The run so far."""

    first: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """The first losses by worker and name."""
    has_reward: bool = False
    """Whether a reward was logged."""
    verdict: Verdict = field(default_factory=lambda: Undecided("no loss was captured"))
    """That on the latest losses."""


class LossSpike(Rule, frozen=True, kw_only=True):
    """Fires when a training loss jumps far above its noise and does not recover.

    Why it matters:
        A lasting spike destroys what was learned: the following steps are spent on learning it again, if that
        happens at all.
    How it decides:
        Fires if the last ``patience`` captured losses are all above ``median + k * 1.4826 * MAD`` and above
        ``median + abs(median) / 2`` (1.5 times a positive median), both of up to ``window`` losses before them, and if
        they undo at least a tenth of what was learned: of the fall from the median of the first 20 losses to this
        median. A loss that was negative has no level that it could be a multiple of: it must also rise above the
        losses before by more than their range. While the high losses fall, the model is learning again, as it does
        where another task or harder examples begin, and the rule is undecided: the median of their second half is,
        above the median before, less than 90 % of that of the first half, or the Mann-Kendall test finds a fall at
        0.05 in their second half, at least 5. At least 20 earlier losses (or ``window``, if that is less) are
        required; undecided before. Each loss is evaluated separately. Does not apply once a metric with the
        [role](../metrics.md#roles) ``reward`` is logged: the loss of a value or a policy rises where something new is
        met, and its level is none that was learned.
    Not a number:
        A NaN or infinite loss counts neither as high nor for the median (see ``nonfinite_origin``).
    Blind spots:
        A rise over hundreds of steps also raises the median (see ``diverging_loss``). A spike that recovers within
        ``patience`` steps, or falls back steadily, is ignored by design. Losses of two competing networks (GAN), or of
        reinforcement learning that logs no reward, may rise in a healthy training.
    Args:
        k: Number of robust standard deviations above the median that is too much, > 0.
        window: Losses in the median and the MAD, >= 2.
        patience: Losses in a row that must be too high, >= 1.
    Source:
        Ours; median and MAD as Leys et al., "Detecting outliers", J. Exp. Soc. Psychol. 49, 2013.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_tensor",
        "nonfinite_origin",
        "loss_not_decreasing",
        "overtraining",
    )

    k: PositiveFloat = 8.0
    window: Annotated[int, msgspec.Meta(ge=2)] = 100
    patience: PositiveInt = 5

    def needs(self) -> Needs:
        history = self.window + self.patience - 1
        logged = (TensorNeed(name, statistics=("value",), modes=("train",), is_optional=True) for name in _LOGGED)
        return Needs((TensorNeed("losses", statistics=("value",), modes=("train",), history=history), *logged))

    @property
    def least_observations(self) -> int:
        return min(_MIN_LOSSES, self.window) + self.patience

    def remember(self, memory: Any, window: Window) -> _Known:
        """Keep the first losses, and the verdict on the latest: what is logged may come at other steps."""
        known: _Known = memory or _Known()
        readings = window.readings("value")
        known.has_reward |= any(role_in(reading.collections) == REWARD for reading in readings)
        latest = [reading for reading in readings if "losses" in reading.collections]
        for reading in latest:
            losses = known.first.setdefault((reading.worker, reading.tensor), [])
            if len(losses) < _MIN_LOSSES and math.isfinite(reading.value):
                losses.append(reading.value)
        if latest:
            known.verdict = self._judge(window, latest, known.first)
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: _Known = window.memory
        if known.has_reward:
            return NotApplicable("a reward is logged: the losses of reinforcement learning may rise")
        return known.verdict

    def _judge(
        self, window: Window, latest_losses: list[TensorReading], first: dict[tuple[str, str], list[float]]
    ) -> Verdict:
        """Return the verdict on the losses of a window."""
        is_judged, known, streak, falling = False, 0, 0, ""
        for reading in latest_losses:
            values = [earlier.value for earlier in window.earlier(reading)]
            values.append(reading.value)
            latest = finite(values[-self.patience :])
            before = finite(values[: -self.patience])
            if not latest:
                continue
            known = max(known, len(before) + len(latest))
            if len(before) < min(_MIN_LOSSES, self.window):
                continue
            is_judged = True
            if latest[-1] <= lowest_spike_bound(before):
                continue  # the last loss ends every row of high ones; most steps need no more than this
            start = median(first[reading.worker, reading.tensor])
            bound, usual, spread = spike_bound(before, self.k)
            bound = max(bound, usual + _UNDONE_SHARE * (start - usual))
            if min(before) < 0:
                bound = max(bound, 2 * max(before) - min(before))
            high = _last_above(bound, finite(values))
            streak = max(streak, len(high))
            if len(high) < self.patience:
                continue
            if not _is_falling(high, usual):
                return self._fired(reading, high, (bound, usual, spread))
            falling = f"{reading.tensor} jumped from {significant(usual)} to {significant(max(high))}, and falls again"
        if not is_judged:
            return too_few(known, self.least_observations, "losses") if known else Undecided("no loss is finite")
        if falling:
            return Undecided(falling, stage="suspected")
        return suspected(streak, self.patience, "losses") if 2 * streak > self.patience else Clear()

    def _fired(self, reading: TensorReading, high: list[float], bounds: tuple[float, float, float]) -> Fired:
        bound, usual, spread = bounds
        return fired(
            f"{reading.tensor} jumped from {significant(usual)} to {significant(max(high))} and "
            f"stayed above {significant(bound)} for {counted(len(high), 'step')}",
            reading,
            advice=_ADVICE,
            evidence={"highest": max(high), "lowest": min(high), "median": usual, "robust_std": spread, "bound": bound},
        )


def _is_falling(high: list[float], usual: float) -> bool:
    """Return whether losses that are too high fall again: by their trend, or by the medians of their halves."""
    half = len(high) // 2
    if not half:
        return False
    first, last = median(high[:half]) - usual, median(high[half:]) - usual
    return last < _LOWER * first or mann_kendall(high[-max(_MIN_TREND, half) :]).p_of_falling() < _P


def _last_above(bound: float, losses: list[float]) -> list[float]:
    """Return the last losses in a row that are above a bound."""
    return list(takewhile(lambda loss: loss > bound, reversed(losses)))[::-1]


def lowest_spike_bound(before: list[float]) -> float:
    """Return a value that ``spike_bound`` is at least, whatever the noise."""
    usual = median(before)
    return usual + abs(usual) / 2


def spike_bound(before: list[float], k: float) -> tuple[float, float, float]:
    """Return the bound above which a loss is a spike, and its median and robust standard deviation."""
    usual = median(before)
    spread = NORMAL_MAD * mad(before, usual)
    return max(usual + k * spread, usual + abs(usual) / 2), usual, spread
