"""The rule weight_saturation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final

import msgspec

from leadline.records.formatting import exact, significant
from leadline.rules import Advice, Fired, Needs, TensorNeed, TensorReading, TensorRule, Window
from leadline.rules.bounds import PositiveFloat
from leadline.rules.messages import fired
from leadline.rules.selection import format_number

_MAX_VALUES: Final = {
    "float16": 65504.0,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
}
"""The largest number of each data type."""
_EVERY: Final = 500
_ADVICE: Final = Advice(
    "weight decay (AdamW, 0.01 to 0.1) or a lower learning rate, from an earlier checkpoint; usually the rate is too "
    "high, or the weights are not regularized"
)


class WeightSaturation(TensorRule[tuple[TensorReading, float]], frozen=True, kw_only=True):
    """Fires when a layer's weights have grown far beyond their scale, or close to the limit of their data type.

    Why it matters:
        Weights a hundred times larger than those that preserve the size of a layer's input saturate the following
        layers, and make the output jump at every step; close to the limit of the data type the next step gives
        infinity.
    How it decides:
        Fires if the ``share / 2`` smallest or the ``share / 2`` largest of a layer's weights are beyond ``abs_max /
        sqrt(fan_in)``, that is, if one of the two percentiles is; or if the largest absolute value is above half of
        the maximum of the data type. ``fan_in`` is the product of all dimensions but the first (1 for
        one-dimensional weights). Only floating-point weights that the optimizer updates are evaluated, where the update
        ratios tell which ones these are; frozen weights are as large as they were made.
    Not a number:
        Percentiles are of the finite weights; a layer without any is not evaluated.
    Blind spots:
        Percentiles of layers with more than 4,096 weights come from a fixed sample. Embeddings are evaluated by
        their width, although only one row is used at a time. Weights in front of a normalization layer may grow
        without any harm, since their scale cancels out.
    Args:
        abs_max: Bound for a weight, in units of ``1 / sqrt(fan_in)``, > 0.
        share: Share of the weights beyond the bound, half of it on each side, > 0 and < 1.
    Source:
        Ours; scale of weights as He et al., "Delving Deep into Rectifiers", 2015.
    """

    explains: ClassVar[tuple[str, ...]] = ("exploding_tensor", "nonfinite_origin", "saturated_activation")

    data: ClassVar[str] = "weights"
    untested: ClassVar[str] = "no finite weights of an optimizer were captured"

    abs_max: PositiveFloat = 100.0
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.01

    def needs(self) -> Needs:
        wanted = ("abs_max", "update_ratio", *self._percentiles())
        return Needs((TensorNeed("weights", statistics=wanted, modes=("train",), every=_EVERY),))

    def _percentiles(self) -> tuple[str, str]:
        low = round(50.0 * self.share, 9)
        return f"p{format_number(low)}", f"p{format_number(round(100.0 - low, 9))}"

    def find(self, window: Window) -> list[tuple[TensorReading, float]] | None:
        percentiles: dict[tuple[str, str], float] = {}
        for statistic in self._percentiles():
            for reading in window.readings(statistic):
                if math.isfinite(reading.value):
                    key = (reading.worker, reading.tensor)
                    percentiles[key] = max(percentiles.get(key, 0.0), abs(reading.value))
        updated = {(reading.worker, reading.tensor) for reading in window.readings("update_ratio")}
        judged = [
            reading
            for reading in window.readings("abs_max")
            if math.isfinite(reading.value)
            and "float" in reading.dtype
            and (reading.worker, reading.tensor) in percentiles
            and (not updated or (reading.worker, reading.tensor) in updated)
        ]
        if not judged:
            return None
        return [
            (layer, percentiles[layer.worker, layer.tensor])
            for layer in judged
            if _is_near_limit(layer) or percentiles[layer.worker, layer.tensor] > self._bound(layer)
        ]

    def _bound(self, reading: TensorReading) -> float:
        return self.abs_max / math.sqrt(max(math.prod(reading.shape[1:]), 1))

    def finding(self, bad: Sequence[tuple[TensorReading, float]]) -> Fired:
        worst, percentile = max(bad, key=lambda layer: (_is_near_limit(layer[0]), layer[1] / self._bound(layer[0])))
        bound = self._bound(worst)
        is_near_limit = _is_near_limit(worst)
        detail = (
            f"largest weight {significant(worst.value)} is above half of the largest {worst.dtype}, "
            f"{significant(_MAX_VALUES[worst.dtype])}"
            if is_near_limit
            else f"more than {exact(50 * self.share)} % of the weights are beyond {significant(bound)} (percentile "
            f"{significant(percentile)}, largest {significant(worst.value)})"
        )
        return fired(
            f"{worst.tensor}: {detail}",
            worst,
            *(layer for layer, _ in bad),
            advice=_ADVICE,
            evidence={
                "abs_max": worst.value,
                "percentile": percentile,
                "bound": bound,
                "fan_in": math.prod(worst.shape[1:]),
            },
            noun="tensor",
            count="tensors",
        )


def _is_near_limit(reading: TensorReading) -> bool:
    return reading.value > _MAX_VALUES.get(reading.dtype, math.inf) / 2
