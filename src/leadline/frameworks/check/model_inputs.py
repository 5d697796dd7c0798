"""What models are given, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from leadline.frameworks.check.outcome import Tested, failed, not_applicable, passed
from leadline.records.check_result import InputSample
from leadline.records.json_object import JsonObject

_DISTINCT: Final = 0.125
"""The share of samples that must differ: few pictures of few pixels repeat by chance."""
_LEAST_ELEMENTS: Final = 8
_LEAST_SAMPLES: Final = 12
_EQUAL: Final = 1 - 1e-9
_FAINT: Final = 1e-4
_LARGE: Final = 50.0
_BYTE: Final = 255
_LEAST_PIXELS: Final = 1000
_AT_END: Final = 0.05
"""The share of the values at each end."""
_LEVELS: Final = 3
_SIDE: Final = 32
"""The sides of the picture of an image."""
_SHOWN: Final = 64
_SAMPLES: Final = 4

Array = npt.NDArray[Any]
Problem = tuple[str, str]
"""What is wrong, as the end of a sentence that begins with the name of the input; and what to try."""


class Given(NamedTuple):
    """An array that a model, or its loss, is given.

    Attributes:
        name: Its name in the script.
        value: The array; one in reduced precision as float32.
        kind: The name of its type.
        axis: The axis of the samples; None: it has none.
        group: Elements along that axis for each sample.
        channels: The axis of the channels of images.
        is_scaled_later: Whether the model may scale it itself, so that large values are no mistake.
        is_answer: Whether it is a label for certain: an action that a policy chose follows from what it was given.
    """

    name: str
    value: Array
    kind: str
    axis: int | None
    group: int = 1
    channels: int = 1
    is_scaled_later: bool = False
    is_answer: bool = True

    @property
    def is_float(self) -> bool:
        """Whether its elements are floating-point numbers."""
        return bool(np.issubdtype(self.value.dtype, np.floating))

    def rows(self) -> Array:
        """Return the elements of each sample, ``(samples, elements)``."""
        assert self.axis is not None
        value = np.moveaxis(self.value, self.axis, 0)
        return value.reshape(value.shape[0] // self.group, -1)


def judge_inputs(inputs: Sequence[Given], labels: Sequence[Given], size: int, *, may_repeat: bool = False) -> Tested:
    """Judge the inputs of models: finite, not constant, not repeated; and show the first samples.

    Args:
        size: The number of samples; 0: it is not known.
        may_repeat: Whether all samples may be equal: where no standard loss compares them with labels, they may be a
            group of a policy gradient.
    """
    items = [item for item in inputs if item.value.size]
    if not items:
        return not_applicable("no model is given a tensor")
    described = [_described(item) for item in items]
    evidence: JsonObject = {
        "inputs": described,
        "samples": [_sample(item) for item in items[:3]],
        "labels": [_first(item) for item in labels[:2]],
    }
    for item in items:
        problem = _problem(item, size, may_repeat=may_repeat) or _leak(item, labels)
        if problem is not None:
            return failed(f"{item.name} {problem[0]}", problem[1], **evidence)
    tokens = [item for item in items if np.issubdtype(item.value.dtype, np.integer) and item.value.ndim == 2]
    are_alone = len(items) == len(tokens) and not any("mask" in item.name for item in tokens)
    if are_alone and all((item.value == item.value.flat[0]).all() for item in tokens):
        return failed(
            f"{tokens[0].name} is {int(tokens[0].value.flat[0])} everywhere",
            "look at the vocabulary and at how unknown words are handled",
            **evidence,
        )
    return passed("; ".join(described[:3]), **evidence)


def _is_mask(item: Given) -> bool:
    value = item.value
    return (
        value.dtype == np.bool_
        or "mask" in item.name
        or (bool(((value == 0) | (value == 1)).all()) and bool(value.any()))
    )


def _leak(item: Given, labels: Sequence[Given]) -> Problem | None:
    """Return the problem of an input that holds the label: exactly, or as features up to a factor and an offset."""
    value = item.value
    if not item.is_float or value.ndim < 2 or item.axis != 0 or item.group != 1 or len(value) < _LEAST_SAMPLES:
        return None
    for label in filter(lambda label: label.is_answer, labels):
        target = np.squeeze(label.value)
        if target.ndim != 1 or len(target) != len(value) or label.axis != 0 or target.std() == 0:
            continue
        problem = _label_of_features(value, target) if value.ndim == 2 else _label_within(value, target)
        if problem is not None:
            return problem
    return None


def _label_of_features(value: Array, target: Array) -> Problem | None:
    columns, wanted = value.astype(np.float64), target.astype(np.float64)
    centred, wanted = columns - columns.mean(0), wanted - wanted.mean()
    sizes = np.linalg.norm(centred, axis=0) * np.linalg.norm(wanted)
    alike = np.nonzero((np.abs(centred.T @ wanted) > _EQUAL * sizes) & (sizes > 0))[0]
    if not len(alike):
        return None
    return (
        f"has the label among its features: feature {alike[0]} tells it exactly, in all {len(value)} samples",
        "drop the column of the label, and what was computed from it",
    )


def _label_within(value: Array, target: Array) -> Problem | None:
    """Return the problem of sequences or images with an element that is the label, as in windows that end behind it.

    Whole numbers are left out: to remember one of them may be what a model is to learn.
    """
    if not np.issubdtype(target.dtype, np.floating) or bool((target == np.floor(target)).all()):
        return None
    rows, wanted = value.reshape(len(value), -1), target.astype(value.dtype)
    places = np.nonzero(rows[0] == wanted[0])[0]
    alike = places[(rows[:, places] == wanted[:, None]).all(0)]
    if not len(alike):
        return None
    place = ", ".join(map(str, np.unravel_index(alike[0], value.shape[1:])))
    return (
        f"holds the label: element [{place}] of each sample is its label, bit for bit, in all {len(value)} samples",
        "take the label from behind what the model is given: of a forecast, shift the labels by the length of a window",
    )


def _problem(item: Given, size: int, *, may_repeat: bool) -> Problem | None:
    """Return what is wrong with an input, and what to try."""
    value = item.value
    if not item.is_float:
        return None
    broken = int((~np.isfinite(value)).sum())
    if broken:
        return f"has {broken:,} elements that are NaN or infinite", "clean the data, or mask what is missing"
    if item.axis is None or size < 2 or value.size < _LEAST_ELEMENTS or _is_mask(item):
        return None
    rows = item.rows()
    if len(rows) != size:
        return None
    if bool((rows == rows.flat[0]).all()):
        what = f"is {float(rows.flat[0]):g} everywhere"
        return (what, "look at how the data are loaded and scaled") if rows.shape[1] > 2 else None
    if may_repeat and bool((rows == rows[0]).all()):
        return None
    if (problem := _repeated(rows) or _wrapped(value)) is not None:
        return problem
    if value.ndim == 2:
        return _of_features(value)
    return _of_images(item) if value.ndim == 4 else None


def _repeated(rows: Array) -> Problem | None:
    size = len(rows)
    if rows.shape[1] < _LEAST_ELEMENTS or size < 4:
        return None
    distinct = len(np.unique(rows, axis=0))
    if distinct > 1 and distinct > _DISTINCT * size:
        return None
    return (
        f"has {distinct} different samples in a batch of {size}",
        "look at the indices that draw the batch, and at caching and augmentation",
    )


def _wrapped(value: Array) -> Problem | None:
    """Return the problem of differences of bytes, of which those below 0 have become large: -3 is 253."""
    largest = float(value.max())
    bytes_of = value * _BYTE if largest <= 1 else value
    levels = np.round(bytes_of)
    if (
        value.size < _LEAST_PIXELS
        or float(value.min()) < 0
        or largest > _BYTE
        or np.abs(bytes_of - levels).max() > 0.01
    ):
        return None
    counts = np.bincount(levels.astype(np.int64).ravel(), minlength=_BYTE + 1) / value.size
    low, high = counts[: _BYTE // 4], counts[-(_BYTE // 4) :]
    if counts[_BYTE // 4 : -(_BYTE // 4)].any() or min(low.sum(), high.sum()) < _AT_END:
        return None
    if min(np.count_nonzero(low), np.count_nonzero(high)) < _LEVELS:
        return None  # black and white
    lowest = _BYTE // 2 + int(np.flatnonzero(counts[_BYTE // 2 :])[0])
    return (
        f"has values at both ends of 0 to 255 and none between, {100 * high.sum():.0f} % of them at the upper one, as "
        f"differences of unsigned bytes: what was from {lowest - _BYTE - 1} to -1 has become {lowest} to {_BYTE}",
        "convert to float, or a wider integer type, before subtracting",
    )


def _of_features(value: Array) -> Problem | None:
    """Return what is wrong with features, ``(samples, features)``."""
    faint = _faint_features(value)
    if faint:
        column = value[:, faint[0]]
        return (
            f"has {len(faint)} feature{'s' * (len(faint) > 1)} that hardly differ from sample to sample: feature "
            f"{faint[0]} is {float(column.mean()):.6g} ± {float(column.std(ddof=1)):.1g}",
            "scale each feature by its own mean and spread; of times, use the hour or the day",
        )
    constant = _constant_features(value)
    if not constant:
        return None
    return (
        f"has {len(constant)} of {value.shape[1]} features with one value in all samples: "
        f"{', '.join(map(str, constant[:8]))}",
        "look at how the data are read, joined and scaled",
    )


def _of_images(item: Given) -> Problem | None:
    """Return what is wrong with images, of four axes."""
    value = item.value
    channels = _constant_channels(np.moveaxis(value, item.channels, 0))
    if channels:
        return (
            f"has {len(channels)} channel{'s' * (len(channels) > 1)} with one value in all samples: "
            f"{', '.join(map(str, channels))}",
            "look at how the data are read and normalized",
        )
    if item.is_scaled_later or float(np.abs(value).max()) <= _LARGE:
        return None
    return (
        f"has values from {float(value.min()):.3g} to {float(value.max()):.3g}: images that are not scaled, or by the "
        "mean and spread of another range",
        "divide by 255 first, and then normalize",
    )


def _faint_features(value: Array) -> list[int]:
    """Return the features whose spread is so small beside their mean that float32 hardly resolves it."""
    columns = value.astype(np.float64)
    mean, spread = np.abs(columns.mean(0)), columns.std(0, ddof=1)
    return [int(at) for at in np.nonzero((spread > 0) & (spread < _FAINT * mean))[0]]


def _constant_features(value: Array) -> list[int]:
    """Return the constant features if they are half of all or more, and no zeros and ones as of rare categories."""
    is_constant = (value == value[:1]).all(0)
    features = [int(at) for at in np.nonzero(is_constant & (value[0] != 0) & (value[0] != 1))[0]]
    return features if len(value) >= _LEAST_SAMPLES and 2 * len(features) >= value.shape[1] else []


def _constant_channels(value: Array) -> list[int]:
    """Return the channels that have one value, if others do not.

    Args:
        value: The images, ``(channels, …)``.
    """
    if len(value) not in (2, 3, 4):
        return []
    flat = value.reshape(len(value), -1)
    constant = [int(at) for at in np.nonzero(flat.max(1) == flat.min(1))[0]]
    return constant if len(constant) < len(value) else []


def _described(item: Given) -> str:
    value = item.value
    shape = " x ".join(map(str, value.shape)) or "scalar"
    if value.dtype == np.bool_:
        return f"{item.name} {shape} {item.kind}, {100 * float(value.mean()):.0f} % True"
    spread = ""
    if item.is_float and value.size > 1:
        wide = value.astype(np.float64)
        spread = f", mean {float(wide.mean()):.3g}, std {float(wide.std(ddof=1)):.3g}"
    return f"{item.name} {shape} {item.kind} from {float(value.min()):.4g} to {float(value.max()):.4g}{spread}"


def _first(item: Given) -> InputSample:
    return {"name": item.name, "shape": list(item.value.shape), "values": item.value.ravel()[:_SHOWN].tolist()}


def _sample(item: Given) -> InputSample:
    """Return the first samples of an input: images as lines of gray or color values, others as their first elements."""
    value = item.value
    if item.axis != 0 or value.ndim < 2:
        return _first(item)
    first = value[:_SAMPLES]
    if value.ndim == 4 and value.shape[item.channels] in (1, 3) and item.is_float:
        low, high = float(first.min()), float(first.max())
        scaled = np.moveaxis((first - low) / (high - low or 1.0), item.channels, 1)
        small = scaled[:, :, _nearest(scaled.shape[2])][:, :, :, _nearest(scaled.shape[3])]
        return {
            "name": item.name,
            "images": (small * 255).round().astype(np.uint8).tolist(),
            "low": low,
            "high": high,
        }
    rows = first.reshape(first.shape[0], -1)[:, :_SHOWN]
    return {"name": item.name, "rows": rows.tolist(), "shape": list(value.shape)}


def _nearest(side: int) -> Array:
    """Return the indices of at most so many pixels that a picture has."""
    shown = min(_SIDE, side)
    return np.arange(shown) * side // shown
