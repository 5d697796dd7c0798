"""The rule unscaled_input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    import numpy as np

    from leadline.reader.window import Floats, TensorReading, Window

_SAMPLES: Final = 500
_FIRST_STEPS: Final = 10
_EVERY: Final = 50


@dataclass(frozen=True, slots=True)
class _Pool:
    """Means and mean squares of an input's features over the samples so far."""

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

    def whole_std(self) -> float:
        """The standard deviation of all elements."""
        return float(max(self.square.mean() - self.mean.mean() ** 2, 0.0) ** 0.5)


class UnscaledInput(Rule, frozen=True, kw_only=True):
    """Fires when the model's input is not scaled: features of very different size, far from zero, or all too large.

    Why it matters:
        One learning rate serves all features: where one of them is a thousand times larger than another, the large one
        makes the steps unstable and the small one is not learned from.
    How it decides:
        Over the first 500 samples and more: largest standard deviation of a feature over the smallest > ``ratio``; or
        ``abs(mean) / std > offset`` for a feature; or the standard deviation of all elements outside
        ``[1 / scale, scale]``. Features are the columns of (N, D), the channels of (N, C, H, W), the last dimension of
        (N, S, D).
    Not a number:
        A batch with NaN or infinity is left out (``nonfinite_origin`` is there for it).
    Blind spots:
        Whole numbers are taken for token ids and not judged. A feature that is the same in all samples has no scale and
        is left out. A model that begins with a normalization of its own (BatchNorm, a Rescaling) needs no scaled input.
        Sparse features (mostly zero) are small on average whatever their scale.
    Args:
        ratio: Largest ratio of two features' standard deviations, > 1.
        offset: Largest absolute mean of a feature, in its standard deviations, > 0.
        scale: Largest standard deviation of all elements, and its inverse the smallest, > 1.
    Source:
        Ours; LeCun et al., "Efficient BackProp", 1998, section 4.3.
    """

    explains: ClassVar[tuple[str, ...]] = ("exploding_gradient", "saturated_activation", "poor_weight_initialization")

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
        pools = {(each.worker, each.tensor): each for each in window.readings("abs_max")}
        judged = [(each, window.memory[key]) for key, each in pools.items() if key in window.memory]
        judged = [(each, pool) for each, pool in judged if pool.samples >= _SAMPLES]
        for reading, pool in judged:
            said = self._judge(pool)
            if said is not None:
                return self._fired(reading, pool, *said)
        return Clear() if judged else Undecided(f"fewer than {_SAMPLES} samples of floating input were captured")

    def _judge(self, pool: _Pool) -> tuple[str, dict[str, float]] | None:
        std = pool.std()
        alive = std > 1e-9 * abs(pool.mean).clip(min=1e-300)
        if alive.any():
            sizes = std[alive]
            ratio = float(sizes.max() / sizes.min())
            if ratio > self.ratio:
                large, small = _at(std == sizes.max()), _at(std == sizes.min())
                return (
                    f"feature {large} has a standard deviation {ratio:.3g} times that of feature {small} "
                    f"({sizes.max():.3g} and {sizes.min():.3g})"
                ), {"ratio": ratio, "threshold": self.ratio}
            offsets = abs(pool.mean[alive]) / sizes
            if offsets.max() > self.offset:
                at = int(alive.nonzero()[0][offsets.argmax()])
                return (
                    f"feature {at} lies {offsets.max():.3g} standard deviations from zero "
                    f"(mean {pool.mean[at]:.3g}, standard deviation {std[at]:.3g})"
                ), {"offset": float(offsets.max()), "threshold": self.offset}
        whole = pool.whole_std()
        if not 1 / self.scale <= whole <= self.scale:
            return f"standard deviation {whole:.3g} is outside [{1 / self.scale:.3g}, {self.scale:g}]", {
                "std": whole,
                "threshold": self.scale,
            }
        return None

    def _fired(self, reading: TensorReading, pool: _Pool, said: str, evidence: dict[str, float]) -> Fired:
        return Fired(
            f"{reading.tensor}: {said}, over {pool.samples:,} samples",
            tensors=(reading.tensor,),
            evidence={**evidence, "samples": pool.samples, "features": len(pool.mean)},
            suggestion="subtract each feature's mean and divide by its standard deviation (of the training data), or a "
            "BatchNorm as the first layer; usually raw units were given to the model",
            worker=reading.worker,
        )


def _batches(window: Window) -> dict[tuple[str, str], _Pool]:
    """What was captured of floating inputs at this step."""
    import numpy as np

    readings = {(each.worker, each.tensor): each for each in window.readings("abs_max")}
    spreads = {(each.worker, each.tensor): each.values for each in window.vectors("unit_std")}
    found = {}
    for vector in window.vectors("unit_mean"):
        key = (vector.worker, vector.tensor)
        reading, std = readings.get(key), spreads.get(key)
        if reading is None or std is None or "float" not in reading.dtype or not reading.shape:
            continue
        if len(std) == len(vector.values) and np.isfinite(vector.values).all() and np.isfinite(std).all():
            found[key] = _Pool(reading.shape[0], vector.values, std**2 + vector.values**2)
    return found


def _at(where: np.ndarray[Any, Any]) -> int:
    return int(where.nonzero()[0][0])
