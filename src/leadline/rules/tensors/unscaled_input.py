"""The rule unscaled_input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.messages import too_few
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    import numpy as np

    from leadline.reader.window import Floats, TensorReading, Window

_SAMPLES: Final = 500
_NOT_EVALUATED: Final = "no finite floating-point input was captured at this step"
_FIRST_STEPS: Final = 10
_EVERY: Final = 50


@dataclass(frozen=True, slots=True)
class _Pool:
    """Means and mean squares of the features of an input over the samples so far."""

    samples: int
    mean: Floats
    """Shape ``(features,)``."""
    square: Floats
    """Mean of the squares, shape ``(features,)``."""

    def joined(self, other: _Pool) -> _Pool:
        samples = self.samples + other.samples
        share = other.samples / samples
        return _Pool(
            samples, self.mean + share * (other.mean - self.mean), self.square + share * (other.square - self.square)
        )

    def std(self) -> Floats:
        import numpy as np

        return np.sqrt(np.maximum(self.square - self.mean**2, 0.0))

    def total_std(self) -> float:
        """Return the standard deviation of all elements."""
        return float(max(self.square.mean() - self.mean.mean() ** 2, 0.0) ** 0.5)


class UnscaledInput(Rule, frozen=True, kw_only=True):
    """Fires when the model's input is not scaled: features of very different size, far from zero, or all too large.

    Why it matters:
        All features share one learning rate: if one of them is a thousand times larger than another, the large one
        makes the steps unstable and the small one is ignored.
    How it decides:
        Evaluated once there are at least 500 samples. Fires if the largest standard deviation of a feature over the
        smallest is > ``ratio``; or ``abs(mean) / std > offset`` for a feature; or the standard deviation of all
        elements is outside ``[1 / scale, scale]``. Features are the columns of (N, D), the channels of (N, C, H,
        W), the last dimension of (N, S, D).
    Not a number:
        A batch with NaN or infinity is skipped (see ``nonfinite_origin``).
    Blind spots:
        Whole numbers count as token ids and are not evaluated. A feature that is the same in all samples has no
        scale and is skipped. A model that begins with its own normalization (BatchNorm, Rescaling) needs no scaled
        input. Sparse features (mostly zero) are small on average, whatever their scale.
    Args:
        ratio: Largest ratio of two features' standard deviations, > 1.
        offset: Largest absolute mean of a feature, in its standard deviations, > 0.
        scale: Largest standard deviation of all elements, and its inverse the smallest, > 1.
    Source:
        Ours; LeCun et al., "Efficient BackProp", 1998, section 4.3.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_tensor",
        "nonfinite_origin",
        "exploding_gradient",
        "saturated_activation",
        "poor_weight_initialization",
    )

    ratio: Annotated[float, msgspec.Meta(gt=1)] = 1e3
    offset: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    scale: Annotated[float, msgspec.Meta(gt=1)] = 100.0

    def needs(self) -> Needs:
        wanted = ("unit_mean", "unit_std", "abs_max")
        return Needs(
            (
                TensorNeed("inputs", statistics=wanted, modes=("train",), end=_FIRST_STEPS),
                TensorNeed("inputs", statistics=wanted, modes=("train",), every=_EVERY),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], _Pool]:
        pools: dict[tuple[str, str], _Pool] = memory or {}
        for key, batch in _batches(window).items():
            known = pools.get(key)
            if known is None or known.mean.shape != batch.mean.shape:
                pools[key] = batch
            elif known.samples < _SAMPLES:
                pools[key] = known.joined(batch)
        return pools

    def evaluate(self, window: Window) -> Verdict:
        pools = {(reading.worker, reading.tensor): reading for reading in window.readings("abs_max")}
        judged = [(reading, window.memory[key]) for key, reading in pools.items() if key in window.memory]
        judged = [(reading, pool) for reading, pool in judged if pool.samples >= _SAMPLES]
        for reading, pool in judged:
            detail = self._judge(pool)
            if detail is not None:
                return self._fired(reading, pool, *detail)
        if judged:
            return Clear()
        samples = max((window.memory[key].samples for key in pools if key in window.memory), default=0)
        return too_few(samples, _SAMPLES, "samples of the input") if samples else Undecided(_NOT_EVALUATED)

    def _judge(self, pool: _Pool) -> tuple[str, dict[str, float]] | None:
        std = pool.std()
        is_varying = std > 1e-9 * abs(pool.mean).clip(min=1e-300)
        if is_varying.any():
            sizes = std[is_varying]
            ratio = float(sizes.max() / sizes.min())
            if ratio > self.ratio:
                large, small = _first_index(std == sizes.max()), _first_index(std == sizes.min())
                return (
                    f"feature {large} has a standard deviation {ratio:.3g} times that of feature {small} "
                    f"({sizes.max():.3g} and {sizes.min():.3g})"
                ), {"ratio": ratio, "threshold": self.ratio}
            offsets = abs(pool.mean[is_varying]) / sizes
            if offsets.max() > self.offset:
                index = int(is_varying.nonzero()[0][offsets.argmax()])
                return (
                    f"feature {index} is {offsets.max():.3g} standard deviations from zero "
                    f"(mean {pool.mean[index]:.3g}, standard deviation {std[index]:.3g})"
                ), {"offset": float(offsets.max()), "threshold": self.offset}
        total_std = pool.total_std()
        if not 1 / self.scale <= total_std <= self.scale:
            return f"standard deviation {total_std:.3g} is outside [{1 / self.scale:.3g}, {self.scale:g}]", {
                "std": total_std,
                "threshold": self.scale,
            }
        return None

    def _fired(self, reading: TensorReading, pool: _Pool, detail: str, evidence: dict[str, float]) -> Fired:
        return Fired(
            f"{reading.tensor}: {detail}, over {pool.samples:,} samples",
            tensors=(reading.tensor,),
            evidence={**evidence, "samples": pool.samples, "features": len(pool.mean)},
            suggestion="subtract each feature's mean and divide by its standard deviation (of the training data), or a "
            "BatchNorm as the first layer; usually the model gets values in raw units",
            worker=reading.worker,
        )


def _batches(window: Window) -> dict[tuple[str, str], _Pool]:
    """Return the statistics of the floating-point inputs of this step."""
    import numpy as np

    readings = {(reading.worker, reading.tensor): reading for reading in window.readings("abs_max")}
    spreads = {(vector.worker, vector.tensor): vector.values for vector in window.vectors("unit_std")}
    batches = {}
    for vector in window.vectors("unit_mean"):
        key = (vector.worker, vector.tensor)
        reading, std = readings.get(key), spreads.get(key)
        if reading is None or std is None or "float" not in reading.dtype or not reading.shape:
            continue
        if len(std) == len(vector.values) and np.isfinite(vector.values).all() and np.isfinite(std).all():
            batches[key] = _Pool(reading.shape[0], vector.values, std**2 + vector.values**2)
    return batches


def _first_index(where: np.ndarray[Any, Any]) -> int:
    return int(where.nonzero()[0][0])
