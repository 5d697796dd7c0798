"""The rule weight_update_ratio."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Final

from leadline.errors import ConfigurationError
from leadline.records.formatting import exact, significant
from leadline.rules import Advice, Fired, Needs, Rule, TensorNeed, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeFloat, PositiveFloat, PositiveInt
from leadline.rules.messages import clear_if_complete, fired
from leadline.rules.selection import select

_COLLECTIONS = ("weights", "biases")
_LARGE: Final = Advice(
    "a tenth of the learning rate, or a warm-up over the first few hundred steps; usually the rate is too high, or the "
    "weights start too small"
)
_SMALL: Final = Advice(
    "a ten times higher learning rate, or checking that the optimizer holds this parameter; usually the rate is too "
    "low, the gradient has vanished, or nothing trains it"
)


class WeightUpdateRatio(Rule, frozen=True, kw_only=True):
    """Fires when a parameter changes by far too much or almost not at all, relative to its own size.

    Why it matters:
        A step that changes a weight by several times its norm discards what was learned; one that changes it by a
        hundred-millionth changes nothing in single precision.
    How it decides:
        Fires if ``norm(after - before) / (norm(before) + epsilon)``, with l2 norms over all elements, is above
        ``large_threshold`` or below ``small_threshold`` for a weight or bias. Without ``num_steps`` the change is
        that of one step of the optimizer, measured at the captured step. With ``num_steps`` the raw weights are
        stored every ``num_steps`` steps, and compared with the latest ones at least ``num_steps`` earlier: this
        writes all weights to disk each time.
    Not a number:
        A parameter that is all zero before the change, or whose ratio is NaN, is not evaluated; undecided if there
        is no other.
    Blind spots:
        A bias that starts close to zero may multiply its norm in a healthy training. Parameters beyond the memory
        limit on the device are measured on a fixed sample of 4,096 elements. A frozen parameter, or a learning rate
        of 0 during warm-up, counts as too small a change.
    Args:
        num_steps: Steps between the two weights, >= 1; none: one step of the optimizer.
        large_threshold: Ratio above which an update is too large, > 0.
        small_threshold: Ratio below which an update is too small, >= 0 and below ``large_threshold``.
        epsilon: Added to the norm of the weight, >= 0, in the unit of the weight.
    Source:
        SageMaker developer guide, "WeightUpdateRatio" (called ``WeightUpdate`` in smdebug).
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_tensor",
        "nonfinite_origin",
        "exploding_gradient",
        "loss_spike",
        "dead_relu",
        "saturated_activation",
    )

    num_steps: PositiveInt | None = None
    large_threshold: PositiveFloat = 10.0
    small_threshold: NonNegativeFloat = 1e-8
    epsilon: NonNegativeFloat = 1e-9

    def check(self) -> None:
        if self.small_threshold >= self.large_threshold:
            raise ConfigurationError(
                f"{self.name}: small_threshold ({exact(self.small_threshold)}) must be below "
                f"large_threshold ({exact(self.large_threshold)})"
            )

    def needs(self) -> Needs:
        if self.num_steps is None:
            return Needs(select(_COLLECTIONS, (), ("update_ratio", "l2")))
        return Needs(tuple(TensorNeed(collection, raw=True, every=self.num_steps) for collection in _COLLECTIONS))

    def evaluate(self, window: Window) -> Verdict:
        ratios = list(self._measured(window) if self.num_steps is None else self._compared(window, self.num_steps))
        judged = [update for update in ratios if not math.isnan(update[0])]
        if not judged:
            return Undecided(
                "no weight had an update ratio at this step"
                if self.num_steps is None
                else f"no weights were stored {self.num_steps} steps earlier"
            )
        bad = [update for update in judged if update[0] > self.large_threshold or update[0] < self.small_threshold]
        if bad:
            return self._fired(bad)
        return clear_if_complete(window, "weights")

    def _measured(self, window: Window) -> Iterator[tuple[float, str, str]]:
        norms = {(reading.worker, reading.tensor): reading.value for reading in window.readings("l2")}
        for reading in window.readings("update_ratio"):
            norm = norms.get((reading.worker, reading.tensor), math.inf)
            factor = 1.0 if math.isinf(norm) or math.isnan(norm) else norm / (norm + self.epsilon) if norm else math.nan
            yield reading.value * factor, reading.tensor, reading.worker

    def _compared(self, window: Window, num_steps: int) -> Iterator[tuple[float, str, str]]:
        import numpy as np

        for current in window.arrays():
            earlier = window.array_before(current, num_steps)
            if earlier is None:
                continue
            before, after = (array.load().astype(np.float64).ravel() for array in (earlier, current))
            if before.shape != after.shape:
                continue
            norm = float(np.linalg.norm(before))
            ratio = float(np.linalg.norm(after - before)) / (norm + self.epsilon) if norm else math.nan
            yield ratio, current.tensor, current.worker

    def _fired(self, bad: list[tuple[float, str, str]]) -> Fired:
        ratio, tensor, worker = bad[0]
        is_large = ratio > self.large_threshold
        limit = self.large_threshold if is_large else self.small_threshold
        return fired(
            f"{tensor}: update ratio {significant(ratio)} is {'above' if is_large else 'below'} {exact(limit)}",
            *(update[1] for update in bad),
            advice=_LARGE if is_large else _SMALL,
            evidence={"update_ratio": ratio, "threshold": limit},
            noun="tensor",
            count="tensors",
            worker=worker,
        )
