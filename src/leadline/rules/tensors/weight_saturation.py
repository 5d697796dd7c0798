"""The rule weight_saturation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more, spoken_number

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_LARGEST: Final = {
    "float16": 65504.0,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
}
"""The largest number of each type."""
_EVERY: Final = 500


class WeightSaturation(Rule, frozen=True, kw_only=True):
    """Fires when a layer's weights have grown far beyond their scale, or to the edge of their type.

    Why it matters:
        Weights a hundred times larger than those that keep a layer's output at the size of its input saturate what
        comes after them, and react to every step with a jump; at the edge of the type the next step is infinity.
    How it decides:
        The ``share / 2`` smallest or the ``share / 2`` largest of a layer's weights lie beyond
        ``abs_max / sqrt(fan_in)``, that is: one of the two percentiles does; or the largest absolute value is above
        half of what the type can hold. ``fan_in`` is the product of all dimensions but the first (1 for
        one-dimensional weights).
    Not a number:
        Percentiles are of the finite weights; a layer without any is not judged.
    Blind spots:
        Percentiles of layers above 4,096 weights come from a fixed sample. Embeddings are judged by their width, though
        one row is looked up at a time. Weights behind a normalization layer may grow without any harm, since their
        scale cancels out.
    Args:
        abs_max: Bound for a weight, in units of ``1 / sqrt(fan_in)``, > 0.
        share: Share of the weights beyond the bound, half of it on each side, > 0 and < 1.
    Source:
        Ours; scale of weights as He et al., "Delving Deep into Rectifiers", 2015.
    """

    explains: ClassVar[tuple[str, ...]] = ("exploding_tensor", "saturated_activation")

    abs_max: Annotated[float, msgspec.Meta(gt=0)] = 100.0
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.01

    def needs(self) -> Needs:
        wanted = ("abs_max", *self._percentiles())
        return Needs((TensorNeed("weights", statistics=wanted, modes=("train",), every=_EVERY),))

    def _percentiles(self) -> tuple[str, str]:
        low = round(50.0 * self.share, 9)
        return f"p{spoken_number(low)}", f"p{spoken_number(round(100.0 - low, 9))}"

    def evaluate(self, window: Window) -> Verdict:
        reached: dict[tuple[str, str], float] = {}
        for statistic in self._percentiles():
            for each in window.readings(statistic):
                if math.isfinite(each.value):
                    key = (each.worker, each.tensor)
                    reached[key] = max(reached.get(key, 0.0), abs(each.value))
        layers = [each for each in window.readings("abs_max") if math.isfinite(each.value)]
        judged = [each for each in layers if (each.worker, each.tensor) in reached]
        if not judged:
            return Undecided("no finite weights were captured")
        bad = [
            (each, reached[each.worker, each.tensor])
            for each in judged
            if _is_at_the_edge(each) or reached[each.worker, each.tensor] > self._bound(each)
        ]
        if bad:
            return self._fired(bad)
        return Undecided("part of the weights at this step was lost") if window.is_thinned else Clear()

    def _bound(self, reading: TensorReading) -> float:
        return self.abs_max / math.sqrt(max(math.prod(reading.shape[1:]), 1))

    def _fired(self, bad: list[tuple[TensorReading, float]]) -> Fired:
        worst, beyond = max(bad, key=lambda each: (_is_at_the_edge(each[0]), each[1] / self._bound(each[0])))
        bound = self._bound(worst)
        is_edge = _is_at_the_edge(worst)
        said = (
            f"largest weight {worst.value:.4g} is above half of the largest {worst.dtype}, {_LARGEST[worst.dtype]:.4g}"
            if is_edge
            else f"more than {50 * self.share:g} % of the weights are beyond {bound:.3g} (percentile {beyond:.3g}, "
            f"largest {worst.value:.3g})"
        )
        tensors = tuple(dict.fromkeys([worst.tensor, *(each.tensor for each, _ in bad)]))
        return Fired(
            f"{worst.tensor}: {said}" + and_more(len(tensors) - 1),
            tensors=tensors,
            evidence={
                "abs_max": worst.value,
                "percentile": beyond,
                "bound": bound,
                "fan_in": math.prod(worst.shape[1:]),
                "tensors": len(tensors),
            },
            suggestion="weight decay (AdamW, 0.01 to 0.1) or a lower learning rate, from a checkpoint before it; "
            "usually the rate is too high, or nothing holds the weights back",
            worker=worst.worker,
        )


def _is_at_the_edge(reading: TensorReading) -> bool:
    return reading.value > _LARGEST.get(reading.dtype, math.inf) / 2
