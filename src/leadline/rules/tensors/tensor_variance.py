"""The rule tensor_variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from leadline.errors import ConfigurationError
from leadline.records.formatting import exact, significant
from leadline.rules import Advice, Fired, Needs, TensorReading, TensorRule, Window
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.bounds import NonNegativeFloat
from leadline.rules.messages import fired
from leadline.rules.selection import check_selection, select

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats

_Variance = NonNegativeFloat | None
_OF_BOOSTER: Final = Advice(
    "inspecting the largest and smallest labels, or a smaller eta; usually labels have outliers or an unexpected "
    "scale, or the model has hardly begun to distinguish samples"
)
_TOO_LARGE: Final = Advice(
    "a normalization layer in front of it, or an initialization scaled to the layer ({he_normal}, {xavier_normal}); "
    "usually weights start too large, or the input is not normalized"
)
_TOO_SMALL: Final = Advice(
    "inspecting the input of the layer (constant features, padding), or a larger initial weight scale; usually "
    "activations are saturated or dead, or the outputs have collapsed"
)


class TensorVariance(TensorRule[TensorReading], frozen=True, kw_only=True):
    """Fires when the variance of a selected tensor is above or below a bound.

    Why it matters:
        Activations or gradients whose spread grows from layer to layer end in saturation or overflow; ones that
        hardly vary are the same for every sample, and nothing can be learned from them.
    How it decides:
        Fires if ``variance > max_threshold`` or ``variance < min_threshold``, with the population variance over all
        elements, for each tensor separately; a bound that is not set is not evaluated.
    Not a number:
        A variance that is NaN or infinite (the tensor contains NaN or infinity) is not evaluated (see
        ``exploding_tensor``); undecided if all are.
    Blind spots:
        The variance depends on the scale of the data: bounds that fit one layer rarely fit another, so there are no
        defaults. A constant tensor (a bias at the start) has variance 0.
    Args:
        collection_names: Collections whose tensors are evaluated, any of ``leadline.records.names.COLLECTIONS`` and
            those of modules (``relu_output``); these or ``tensor_regex`` must be set.
        tensor_regex: Regular expressions (``re.search``); tensors whose names match are evaluated as well.
        max_threshold: Variance above which it fires, >= 0, in the square of the tensor's unit; none: no such bound.
        min_threshold: Variance below which it fires, >= 0, in the square of the tensor's unit and not above
            ``max_threshold``; none: no such bound. At least one of the two must be set.
    Source:
        SageMaker developer guide, "TensorVariance".
    """

    data: ClassVar[str] = "selected tensors"
    untested: ClassVar[str] = "no selected tensor had a finite variance at this step"

    collection_names: tuple[str, ...] | None = None
    tensor_regex: tuple[str, ...] | None = None
    max_threshold: _Variance = None
    min_threshold: _Variance = None

    def check(self) -> None:
        check_selection(self.name, self.collection_names, self.tensor_regex, is_required=True)
        if self.max_threshold is None and self.min_threshold is None:
            raise ConfigurationError(f"{self.name}: no bound is given; set max_threshold or min_threshold")
        if self._min > self._max:
            raise ConfigurationError(
                f"{self.name}: min_threshold ({exact(self._min)}) must not be above max_threshold ({exact(self._max)})"
            )

    @property
    def _max(self) -> float:
        return math.inf if self.max_threshold is None else self.max_threshold

    @property
    def _min(self) -> float:
        return 0.0 if self.min_threshold is None else self.min_threshold

    def needs(self) -> Needs:
        return Needs(select(self.collection_names, self.tensor_regex, ("variance",)))

    def find(self, window: Window) -> list[TensorReading] | None:
        bad = window.readings("variance", where=self._is_outside)
        return bad if bad or window.readings("variance", where=_is_finite) else None

    def _is_outside(self, variances: Floats) -> Choices:
        return _is_finite(variances) & ((variances > self._max) | (variances < self._min))

    def finding(self, bad: Sequence[TensorReading]) -> Fired:
        large = [reading for reading in bad if reading.value > self._max]
        worst = max(large, key=_value) if large else min(bad, key=_value)
        limit = self._max if large else self._min
        return fired(
            f"{worst.tensor}: variance {significant(worst.value)} is {'above' if large else 'below'} {exact(limit)}",
            worst,
            *bad,
            advice=_OF_BOOSTER if is_from_booster(worst) else _TOO_LARGE if large else _TOO_SMALL,
            evidence={"variance": worst.value, "threshold": limit},
            noun="tensor",
            count="tensors",
        )


def _is_finite(values: Floats) -> Choices:
    return abs(values) < math.inf


def _value(reading: TensorReading) -> float:
    return reading.value
