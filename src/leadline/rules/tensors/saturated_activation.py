"""The rule saturated_activation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from leadline.errors import ConfigurationError
from leadline.records.formatting import exact
from leadline.rules import Advice, Fired, Needs, TensorNeed, TensorRule, TensorVector, Window
from leadline.rules.bounds import Percent
from leadline.rules.messages import fired
from leadline.rules.selection import check_selection, format_number, select
from leadline.rules.tensors.unit_percentages import unit_percentages

_ADVICE: Final = Advice(
    "a normalization layer in front of it, or smaller initial weights ({xavier_uniform}); usually its input is not "
    "normalized, or the learning rate is too high"
)


@dataclass(frozen=True, slots=True)
class _Band:
    """The input range in which an activation has a slope."""

    kind: str
    low: float
    high: float

    @property
    def statistic(self) -> str:
        return f"unit_within_{format_number(self.low)}_{format_number(self.high)}"

    def applies_to(self, layer: TensorVector) -> bool:
        """Return whether a tensor is the input of such an activation, by its collection or by its name."""
        return f"{self.kind}_input" in layer.collections or self.kind in layer.tensor.lower()


@dataclass(frozen=True, slots=True)
class _Layer:
    """The saturated units of a layer."""

    vector: TensorVector
    band: _Band
    saturated: int

    @property
    def percent(self) -> float:
        return self.saturated / self.vector.values.size * 100.0


class SaturatedActivation(TensorRule[_Layer], frozen=True, kw_only=True):
    """Fires when more than a given share of a tanh or sigmoid layer's units is saturated.

    Why it matters:
        For large inputs tanh and sigmoid are flat: their slope, and with it the gradient of all layers in front, is
        close to zero. A layer of saturated units does not learn, and blocks the layers in front.
    How it decides:
        A unit (channel of a convolution, feature of a dense layer) is saturated if its input is within the band on
        fewer than ``threshold_inactivity`` percent of the samples of the captured step. Fires if ``saturated units
        / units * 100 > threshold_layer`` in a layer. The band is that of tanh if the tensor is in the collection
        ``tanh_input`` or has ``tanh`` in its name, and likewise for sigmoid; other tensors are not evaluated.
    Not a number:
        NaN is not within any band: a unit that is NaN counts as saturated. A layer without samples is not
        evaluated.
    Blind spots:
        The default bands end where single precision rounds the slope to zero; activations suffer long before (tanh
        beyond 3). The gates in nn.LSTM and nn.GRU are not visible. Only one batch is evaluated.
    Args:
        tensor_regex: Regular expressions (``re.search``) for the inputs that are evaluated; a pattern such as
            ``.*tanh_input`` also selects the inputs of all modules of that kind.
        threshold_tanh_min: Lower end of the band of tanh, below ``threshold_tanh_max``.
        threshold_tanh_max: Upper end of the band of tanh.
        threshold_sigmoid_min: Lower end of the band of sigmoid, below ``threshold_sigmoid_max``.
        threshold_sigmoid_max: Upper end of the band of sigmoid.
        threshold_inactivity: Percent of the samples below which a unit counts as saturated, >= 0 and <= 100.
        threshold_layer: Percent of a layer's units that may be saturated, >= 0 and <= 100.
    Source:
        SageMaker developer guide, "SaturatedActivation".
    """

    explains: ClassVar[tuple[str, ...]] = ("vanishing_gradient", "unchanged_tensor", "loss_not_decreasing")

    data: ClassVar[str] = "activations"
    untested: ClassVar[str] = "no input of tanh or sigmoid had units and samples at this step"

    tensor_regex: tuple[str, ...] = (".*tanh_input|.*sigmoid_input",)
    threshold_tanh_min: float = -9.4999
    threshold_tanh_max: float = 9.4999
    threshold_sigmoid_min: float = -23.0
    threshold_sigmoid_max: float = 16.99999
    threshold_inactivity: Percent = 1.0
    threshold_layer: Percent = 50.0

    def check(self) -> None:
        check_selection(self.name, None, self.tensor_regex)
        for band in self._bands:
            if not band.low < band.high:
                raise ConfigurationError(
                    f"{self.name}: threshold_{band.kind}_min ({exact(band.low)}) must be below "
                    f"threshold_{band.kind}_max ({exact(band.high)})"
                )

    @property
    def _bands(self) -> tuple[_Band, ...]:
        return (
            _Band("tanh", self.threshold_tanh_min, self.threshold_tanh_max),
            _Band("sigmoid", self.threshold_sigmoid_min, self.threshold_sigmoid_max),
        )

    def needs(self) -> Needs:
        alternatives = [part for pattern in self.tensor_regex for part in _alternatives(pattern)]
        needs: list[TensorNeed] = []
        for pattern in alternatives:
            named = [band for band in self._bands if band.kind in pattern.lower()]
            needs += select((), (pattern,), tuple(band.statistic for band in named or self._bands))
        return Needs(tuple(dict.fromkeys(needs)))

    def find(self, window: Window) -> list[_Layer] | None:
        layers = [layer for band in self._bands for layer in self._layers(band, window)]
        if not layers:
            return None
        return sorted(
            (layer for layer in layers if layer.percent > self.threshold_layer), key=lambda layer: -layer.percent
        )

    def _layers(self, band: _Band, window: Window) -> list[_Layer]:
        return [
            _Layer(vector, band, int((unit_percentages(vector.values) < self.threshold_inactivity).sum()))
            for vector in window.vectors(band.statistic)
            if band.applies_to(vector) and (vector.values == vector.values).any()
        ]

    def finding(self, bad: Sequence[_Layer]) -> Fired:
        worst, band = bad[0], bad[0].band
        units = worst.vector.values.size
        return fired(
            f"{worst.vector.tensor}: {worst.saturated:,} of {units:,} units ({worst.percent:.0f} %) are within "
            f"{exact(band.low)} to {exact(band.high)} on fewer than {exact(self.threshold_inactivity)} % of the "
            "samples",
            *(layer.vector for layer in bad),
            advice=_ADVICE,
            evidence={
                "saturated_units": worst.saturated,
                "units": units,
                "saturated_percent": worst.percent,
                "threshold": self.threshold_layer,
            },
            noun="layer",
            count="layers",
        )


def _alternatives(pattern: str) -> tuple[str, ...]:
    """Split a pattern that is a plain alternation into its parts; return any other pattern whole."""
    is_plain = re.fullmatch(r"[\w.*|^$-]+", pattern) is not None
    return tuple(pattern.split("|")) if is_plain else (pattern,)
