"""The rule unscaled_input."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leadline.records.formatting import exact, significant
from leadline.records.loss_facts import GIVEN_SIZE
from leadline.records.names import CHECKS
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
from leadline.rules.bounds import Factor, PositiveFloat
from leadline.rules.messages import fired, too_few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from leadline.reader.window import Floats

_SAMPLES: Final = 64
_FIRST_STEPS: Final = 10
_EVERY: Final = 50
_LARGE: Final = 10.0
"""Features of at most this size are as large as the outputs of layers."""
_PIXELS: Final = (127.0, 255.0)
"""The range of the largest value of unscaled pixels."""
_PIXEL_STD: Final = 16.0
_SAME_SIZE: Final = 3.0
"""A layer that is given values within this factor of the model's input is given the input, rescaled at most by
dropout."""
_LAYERS: Final = frozenset(
    f"{kind}_input" for kind in ("linear", "dense", "conv1d", "conv2d", "conv3d", "rnn", "lstm", "gru")
)
_REGRESSIONS: Final = frozenset(
    f"{kind}_input"
    for kind in (
        *("mseloss", "l1loss", "l2loss", "smoothl1loss", "huberloss"),
        *("meansquarederror", "meanabsoluteerror", "huber", "logcosh"),
    )
)
_POSITION: Final = re.compile(r"\d+$")
_NEAR: Final = 10.0
"""Predictions that vary within this factor of the labels start on their scale. Outputs of a network are at most about
``_LARGE``, and labels of up to 10 times that size are no finding either."""
_Key = tuple[str, str]
_Detail = tuple[str, dict[str, float]]
_LABELS_ADVICE: Final = Advice(
    "subtract the labels' mean and divide by their standard deviation, and undo both for predictions; usually they are "
    "in raw units"
)
_DIVIDED_ADVICE: Final = Advice("checking how the data are read; usually whole numbers were divided and rounded down")
_ADVICE: Final = Advice(
    "subtract each feature's mean and divide by its standard deviation (of the training data), or {batch_norm} as the "
    "first layer; usually the model gets values in raw units"
)


@dataclass(frozen=True, slots=True)
class _Pool:
    """What is known of an input, or of the labels or predictions of a loss call, from the samples so far."""

    samples: int
    mean: Floats
    """Means of the features, shape ``(features,)``; labels and predictions are one feature."""
    square: Floats
    """Means of the squares, shape ``(features,)``."""
    low: float
    """The smallest value."""
    size: float
    """The largest absolute value."""
    columns: int
    """The last dimension."""
    is_judged: bool | None
    """Whether a layer is given the input as it is, at the first step that shows it; None: no step did. Activations of
    later steps may have grown to any size. Labels are always judged, predictions never."""

    def joined(self, other: _Pool) -> _Pool:
        samples = self.samples + other.samples
        share = other.samples / samples
        return replace(
            self,
            samples=samples,
            mean=self.mean + share * (other.mean - self.mean),
            square=self.square + share * (other.square - self.square),
            low=min(self.low, other.low),
            size=max(self.size, other.size),
            is_judged=other.is_judged if self.is_judged is None else self.is_judged,
        )

    def std(self) -> Floats:
        import numpy as np

        return np.sqrt(np.maximum(self.square - self.mean**2, 0.0))

    def total_std(self) -> float:
        """Return the standard deviation of all elements."""
        return float(max(self.square.mean() - self.mean.mean() ** 2, 0.0) ** 0.5)

    def is_constant(self) -> bool:
        """Return whether all elements of labels or predictions are the same, apart from rounding."""
        return self.total_std() <= 1e-6 * abs(float(self.mean[0]))


class UnscaledInput(Rule, frozen=True, kw_only=True):
    """Fires when the model's input, or the labels of a regression, are not scaled: far from zero, too large, too small.

    Why it matters:
        All features share one learning rate: if one of them is a thousand times larger than another, the large one
        makes the steps unstable and the small one is ignored. A network starts with outputs of about 1: labels of
        many thousands take as many updates to reach, and labels of a thousandth drown in the noise of the outputs.
    How it decides:
        Evaluated once there are 64 samples, of the first 10 steps and of every 50th one. An input fires if the largest
        standard deviation of a feature is > 10 and > ``ratio`` times the smallest; or if the absolute mean of a
        feature is > 10 and > ``offset`` times its standard deviation; or if the standard deviation of all elements is
        > ``scale``, or < ``1 / scale`` without any value beyond ``10 / scale``; or if all values are between 0 and
        255, the largest is > 127 and the standard deviation > 16, as pixels are read from files. Features are the
        columns of (N, D), the channels of (N, C, H, W), the last dimension of (N, S, D). Labels of mean squared,
        absolute, smooth and Huber errors fire by ``scale`` alone, unless the first predictions that vary are on their
        scale: with a standard deviation within a factor of 10 of the labels', and a mean at most ``offset`` of the
        labels' standard deviations from theirs. Such a model rescales its output itself, or a network computes the
        labels as well. An input is evaluated if a linear, convolution or recurrent layer is given values of the same
        size (within a factor of 3) at the first step that shows layers: a model that normalizes its input needs no
        scaled one. It fires too if every value of such an input is 0.
    Not a number:
        A batch with NaN or infinity is skipped (see ``nonfinite_origin``).
    Blind spots:
        Whole numbers are evaluated only if a layer is given numbers of that size, and not an embedding. A feature that
        is the same in all samples counts in ``scale`` only. Constant labels, and labels whose rows sum to 1, are
        skipped. Where predictions are not captured, labels are evaluated without them. Layers that the script computes
        by itself, or that are compiled, are not seen. Labels of a loss that is written out are not known.
    Args:
        ratio: Largest ratio of two features' standard deviations, > 1.
        offset: Largest absolute mean of a feature, or distance of predictions, in standard deviations, > 0.
        scale: Largest standard deviation of all elements, and its inverse the smallest, > 1.
    Source:
        Ours; LeCun et al., "Efficient BackProp", 1998, section 4.3.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "check_input_images",
        "exploding_gradient",
        "learning_rate",
        "loss_at_start",
        "loss_spike",
        "saturated_activation",
        "poor_weight_initialization",
    )

    ratio: Factor = 1e3
    offset: PositiveFloat = 10.0
    scale: Factor = 100.0

    def needs(self) -> Needs:
        inputs, given = ("unit_mean", "unit_std", "min", "abs_max"), ("mean", "std", "min", "abs_max")
        return Needs(
            (
                *_first_and_regular("inputs", inputs),
                *(need for loss in sorted(_REGRESSIONS) for need in _first_and_regular(loss, given)),
                *(
                    TensorNeed(layer, statistics=("abs_max",), modes=("train",), is_optional=True)
                    for layer in sorted(_LAYERS)
                ),
                TensorNeed(
                    CHECKS, regex=f"/{GIVEN_SIZE}$", statistics=("value",), modes=("train",), end=1, is_optional=True
                ),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[_Key, _Pool]:
        pools: dict[_Key, _Pool] = dict(memory or {})
        for key, batch in _batches(window):
            known = pools.get(key)
            if known is None or known.mean.shape != batch.mean.shape:
                pools[key] = batch
            elif known.samples < _SAMPLES or (batch.is_judged is False and known.is_constant()):
                pools[key] = known.joined(batch)
            elif known.is_judged is None:
                pools[key] = replace(known, is_judged=batch.is_judged)
        return pools

    def evaluate(self, window: Window) -> Verdict:
        readings = [reading for reading in window.readings("abs_max") if _is_input(reading) or _is_label(reading)]
        if not readings:
            if any(_layers_given(window)):
                return NotApplicable("the model itself is given no tensor")
            return Undecided("no input of the model was captured")
        pools: dict[_Key, _Pool] = window.memory
        judged = [
            (reading, pools[key])
            for reading in readings
            if (key := (reading.worker, reading.tensor)) in pools and pools[key].is_judged
        ]
        complete = [(reading, pool) for reading, pool in judged if pool.samples >= _SAMPLES]
        is_early = False
        for reading, pool in complete:
            if not _is_label(reading):
                detail = self._judge_input(pool)
            else:
                predictions = pools.get(_predictions_of(reading))
                detail = self._judge_labels(pool, predictions)
                if detail is not None and predictions is not None and predictions.is_constant():
                    is_early, detail = True, None
            if detail is not None:
                return self._fired(reading, pool, *detail)
        if is_early:
            return Undecided("a regression has predicted the same for every sample")
        if complete:
            return Clear()
        if judged:
            return too_few(max(pool.samples for _, pool in judged), _SAMPLES, "samples")
        return NotApplicable("no layer is given floating-point values as they are, and no regression has labels")

    def _judge_input(self, pool: _Pool) -> _Detail | None:
        std = pool.std()
        is_varying = std > 1e-6 * abs(pool.mean).clip(min=1e-300)
        if not is_varying.any():
            return ("every value is 0", {"max": 0.0}) if pool.size == 0 else None
        sizes, means = std[is_varying], abs(pool.mean[is_varying])
        ratio = float(sizes.max() / sizes.min())
        if ratio > self.ratio and sizes.max() > _LARGE:
            large, small = _first_index(std == sizes.max()), _first_index(std == sizes.min())
            return (
                f"feature {large} has a standard deviation {significant(ratio)} times that of feature {small} "
                f"({significant(sizes.max())} and {significant(sizes.min())})"
            ), {"ratio": ratio, "threshold": self.ratio}
        offsets = (means > _LARGE) * means / sizes
        if offsets.max() > self.offset:
            index = int(is_varying.nonzero()[0][offsets.argmax()])
            return (
                f"feature {index} is {significant(offsets.max())} standard deviations from zero "
                f"(mean {significant(pool.mean[index])}, standard deviation {significant(std[index])})"
            ), {"offset": float(offsets.max()), "threshold": self.offset}
        return self._judge_scale(pool) or _judge_pixels(pool)

    def _judge_labels(self, pool: _Pool, predictions: _Pool | None) -> _Detail | None:
        are_probabilities = pool.columns > 1 and pool.low >= 0 and abs(pool.mean[0] * pool.columns - 1) < 1e-3
        detail = None if are_probabilities or pool.is_constant() else self._judge_scale(pool)
        if detail is None or predictions is None:
            return detail
        spread, std = predictions.total_std(), pool.total_std()
        distance = abs(float(predictions.mean[0] - pool.mean[0]))
        if std <= _NEAR * spread and spread <= _NEAR * std and distance <= self.offset * std:
            return None
        message, evidence = detail
        of_predictions = f", that of the predictions is {significant(spread)}"
        return message + of_predictions, {**evidence, "predictions": spread, "distance": distance}

    def _judge_scale(self, pool: _Pool) -> _Detail | None:
        std = pool.total_std()
        if std > self.scale or (std < 1 / self.scale and pool.size < 10 / self.scale):
            return (
                f"standard deviation {significant(std)} is outside [{significant(1 / self.scale)}, "
                f"{exact(self.scale)}]",
                {"std": std, "threshold": self.scale},
            )
        return None

    def _fired(self, reading: TensorReading, pool: _Pool, detail: str, evidence: dict[str, float]) -> Fired:
        is_label = _is_label(reading)
        suggestion = _LABELS_ADVICE if is_label else _DIVIDED_ADVICE if pool.size == 0 else _ADVICE
        return fired(
            f"{reading.tensor}{' (labels)' * is_label}: {detail}, over {pool.samples:,} samples",
            reading,
            advice=suggestion,
            evidence={**evidence, "samples": pool.samples, "features": len(pool.mean)},
        )


def _first_and_regular(collection: str, statistics: tuple[str, ...]) -> Iterable[TensorNeed]:
    need = TensorNeed(collection, statistics=statistics, modes=("train",), is_optional=True)
    return replace(need, end=_FIRST_STEPS), replace(need, every=_EVERY)


def _is_input(reading: TensorReading) -> bool:
    return "inputs" in reading.collections


def _is_label(reading: TensorReading) -> bool:
    return "labels" in reading.collections and not _REGRESSIONS.isdisjoint(reading.collections)


def _is_prediction(reading: TensorReading) -> bool:
    return "predictions" in reading.collections and not _REGRESSIONS.isdisjoint(reading.collections)


def _predictions_of(labels: TensorReading) -> _Key:
    """Return the key of the predictions in the same loss call, which are the input before the labels."""
    return labels.worker, _POSITION.sub(lambda found: str(int(found[0]) - 1), labels.tensor)


def _judge_pixels(pool: _Pool) -> _Detail | None:
    low, high = _PIXELS
    if pool.low >= 0 and low < pool.size <= high and pool.total_std() > _PIXEL_STD:
        return "values from 0 to 255, as pixels are read from files", {"max": pool.size, "threshold": low}
    return None


def _batches(window: Window) -> Iterator[tuple[_Key, _Pool]]:
    """Yield the statistics of the inputs, and of the labels and predictions of regressions, of this step."""
    import numpy as np

    sizes, layers = window.readings("abs_max"), list(_layers_given(window))
    lows = _by_key(window.readings("min"))
    means, spreads = _by_key(window.readings("mean")), _by_key(window.readings("std"))
    unit_means = {(vector.worker, vector.tensor): vector.values for vector in window.vectors("unit_mean")}
    unit_spreads = {(vector.worker, vector.tensor): vector.values for vector in window.vectors("unit_std")}
    for reading in sizes:
        key = (reading.worker, reading.tensor)
        if not reading.shape:
            continue
        if _is_input(reading):
            mean, std = unit_means.get(key), unit_spreads.get(key)
        elif (_is_label(reading) or _is_prediction(reading)) and key in means and key in spreads:
            mean, std = np.array([means[key]]), np.array([spreads[key]])
        else:
            continue
        if mean is None or std is None or len(mean) != len(std) or not np.isfinite([*mean, *std]).all():
            continue
        given = [layer.value for layer in layers if layer.worker == reading.worker and "int" not in layer.dtype]
        is_given = any(_are_of_one_size(value, reading.value) for value in given) if given else None
        is_judged = is_given if _is_input(reading) else _is_label(reading)
        square = std**2 + mean**2
        low = lows.get(key, -reading.value)
        yield key, _Pool(reading.shape[0], mean, square, low, reading.value, reading.shape[-1], is_judged)


def _layers_given(window: Window) -> Iterator[TensorReading]:
    """Yield the largest absolute values that layers are given at this step."""
    yield from (reading for reading in window.readings("abs_max") if not _LAYERS.isdisjoint(reading.collections))
    yield from (reading for reading in window.readings("value") if reading.tensor.endswith(f"/{GIVEN_SIZE}"))


def _are_of_one_size(one: float, other: float) -> bool:
    return one <= _SAME_SIZE * other and other <= _SAME_SIZE * one


def _by_key(readings: Iterable[TensorReading]) -> dict[_Key, float]:
    return {(reading.worker, reading.tensor): reading.value for reading in readings}


def _first_index(where: np.ndarray[Any, Any]) -> int:
    return int(where.nonzero()[0][0])
