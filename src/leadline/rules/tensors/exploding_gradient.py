"""The rule exploding_gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.formatting import significant
from leadline.records.metric_roles import GRADIENT_NORM, role_in
from leadline.rules import Advice, Clear, Fired, Needs, Rule, TensorNeed, TensorReading, Undecided, Verdict, Window
from leadline.rules.bounds import Factor, PositiveInt
from leadline.rules.messages import fired, too_few
from leadline.rules.robust import NORMAL_MAD, finite, mad

_LATEST: Final = 5
"""The number of norms in a row that are evaluated together."""
_RECENT: Final = 3
"""The number of norms just before them whose median is too high as well when a norm has grown, not jumped."""
_DEVIATIONS: Final = 4.0
"""Robust standard deviations of the logarithms; healthy trainings in the tests reach 2.1, twice in 5 norms."""
_USUAL: Final = 20
"""With fewer earlier norms than this the bound is higher, since their median and noise are uncertain."""
_NORM: Final = "gradient_norm"
_BEFORE: Final = "gradient_norm_before_clipping"
_ADVICE: Final = Advice(
    "clip gradients ({clip_norm_to} a few times the median), or a tenth of the learning rate; usually the rate is too "
    "high at this point, or a batch is an outlier"
)
_ADVICE_IF_CLIPPED: Final = Advice(
    "a tenth of the learning rate; usually the rate is too high at this point: with clipping each update has its full "
    "size, however steep the loss is"
)


@dataclass(slots=True)
class _Phase:
    """The part of a training in which its losses are the same."""

    losses: set[str] = field(default_factory=set)
    since: int = 0
    """The step at which the latest new loss appeared."""


class ExplodingGradient(Rule, frozen=True, kw_only=True):
    """Fires when the total gradient norm jumps far above its usual level, more than once within a few steps.

    Why it matters:
        One step along an exploded gradient moves the weights far away from where they were. Clipping prevents that,
        and hides it where from then on every step is a clipped one.
    How it decides:
        Fires if at least ``patience`` of the last 5 captured norms, all 5 if the training clips gradients, are above
        ``factor`` times the median of up to ``window`` earlier norms, or of the last 3 of these if that is higher, and
        above their noise: ``median * exp(4 * 1.4826 * MAD)``, where MAD is that of their logarithms. With fewer than 20
        earlier norms the bound is 20 / their number times as high; at least ``warmup`` are required, undecided before.
        The norm is the l2 norm of all gradients of an optimizer, before clipping if the training clips, else as the
        optimizer gets them. Each optimizer is evaluated separately. Norms from before a step at which a loss of a new
        name appears, that of a second phase, are not compared with those after it.
    Not a number:
        Norms that are NaN or infinite count neither as high nor for the median (see ``nonfinite_origin``). Steps
        that a gradient scaler skipped are not evaluated. Undecided if the median is 0.
    Blind spots:
        The window counts captured norms, at whatever distance: it is longer in steps where they are captured less
        often. A norm that grows slowly is not a jump. The first ``warmup`` captures are not evaluated, although many
        explosions happen there.
    Args:
        factor: Multiple of the median that is too much, > 1.
        window: Norms in the median, >= 1.
        patience: How many of 5 norms in a row must be too high without clipping, 1 to 5.
        warmup: Earlier norms that are required, >= 1.
    Source:
        Ours; Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", 2013.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_tensor",
        "nonfinite_origin",
        "loss_spike",
        "weight_update_ratio",
        "learning_rate",
        "gradient_clipping",
    )

    factor: Factor = 10.0
    window: PositiveInt = 100
    patience: Annotated[int, msgspec.Meta(ge=1, le=5)] = 2
    warmup: PositiveInt = 6

    def needs(self) -> Needs:
        history = max(self.window, self.warmup) + _LATEST - 1
        losses = TensorNeed("losses", statistics=("value",), modes=("train",), is_optional=True)
        return Needs((TensorNeed("gradient_norms", statistics=("value",), modes=("train",), history=history), losses))

    def remember(self, memory: Any, window: Window) -> dict[str, _Phase]:
        """Keep the losses of each worker, and the step at which the latest new one appeared."""
        phases: dict[str, _Phase] = memory or {}
        for reading in window.readings("value"):
            if "losses" in reading.collections:
                phase = phases.setdefault(reading.worker, _Phase())
                if reading.tensor not in phase.losses:
                    phase.losses.add(reading.tensor)
                    phase.since = reading.mode_step
        return phases

    @property
    def least_observations(self) -> int:
        return self.warmup + _LATEST

    def evaluate(self, window: Window) -> Verdict:
        if window.is_skipped:
            return Undecided("a gradient scaler skipped the step")
        norms = _norms(window.readings("value"))
        if not norms:
            return Undecided("no gradient norm was captured at this step")
        is_judged, known = False, 0
        for reading in norms:
            since = window.memory[reading.worker].since if reading.worker in window.memory else 0
            values = [earlier.value for earlier in window.earlier(reading) if earlier.mode_step >= since]
            values.append(reading.value)
            before = finite(values[:-_LATEST])[-max(self.window, self.warmup) :]
            known = max(known, len(before) + len(finite(values[-_LATEST:])))
            if len(before) < self.warmup:
                continue
            usual = max(median(before[-self.window :]), median(before[-_RECENT:]))
            if usual <= 0:
                continue
            is_judged = True
            latest = finite(values[-_LATEST:])
            if max(latest, default=0.0) <= usual * self.factor:
                continue  # the bound is at least this; most steps need no more
            bound = usual * max(self.factor, _noise(before[-self.window :])) * self._uncertainty(len(before))
            high = [norm for norm in latest if norm > bound]
            if len(high) >= (_LATEST if _is_clipped(reading) else self.patience):
                return self._fired(reading, usual, high)
        if is_judged:
            return Clear()
        if known < self.least_observations:
            return too_few(known, self.least_observations, "gradient norms")
        return Undecided("the gradient norms are 0")

    def _uncertainty(self, norms: int) -> float:
        """Return the factor by which the bound is higher with so few earlier norms."""
        return max(1.0, min(_USUAL, self.window) / norms)

    def _fired(self, reading: TensorReading, usual: float, high: list[float]) -> Fired:
        return fired(
            f"{reading.tensor} is {significant(max(high))}, {significant(max(high) / usual)} times "
            f"its median of {significant(usual)}, "
            f"in {len(high)} of the last {_LATEST} captured",
            reading,
            advice=_ADVICE_IF_CLIPPED if _is_clipped(reading) else _ADVICE,
            evidence={
                "norm": max(high),
                "median": usual,
                "times": max(high) / usual,
                "factor": self.factor,
                "high": len(high),
            },
        )


def _noise(norms: list[float]) -> float:
    """Return the multiple of the median that norms reach by chance.

    Late in a training, when only a few samples are still wrong, norms vary over orders of magnitude.
    """
    logarithms = [math.log(norm) for norm in norms if norm > 0]
    return math.exp(min(_DEVIATIONS * NORMAL_MAD * mad(logarithms, median(logarithms)), 700.0))


def _is_clipped(reading: TensorReading) -> bool:
    return reading.tensor.endswith(_BEFORE)


def _norms(readings: list[TensorReading]) -> list[TensorReading]:
    """Return the norm of each optimizer, before clipping if available; of a log, the norm that it names."""
    clipped = {(reading.worker, reading.tensor) for reading in readings if _is_clipped(reading)}
    return [
        reading
        for reading in readings
        if _is_clipped(reading)
        or role_in(reading.collections) == GRADIENT_NORM
        or (reading.tensor.endswith(_NORM) and (reading.worker, f"{reading.tensor}_before_clipping") not in clipped)
    ]
