"""Reference implementation of every statistic in numpy, used by the reader and by tests of the device kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.statistics.bits import checksum, fingerprints
from leadline.statistics.definitions import HISTOGRAM_BINS, MAX_CLASSES, QUANTILES, Statistic, find_statistic
from leadline.statistics.derivations import Derivation
from leadline.statistics.primaries import find_primary

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


def compute(name: str, values: Array, before: Array | None = None) -> float:
    """Compute one statistic of an array exactly (never from a sample), accumulated in float64.

    Shape:
        values: any ``(*shape,)``; result: ``()``.
    Units:
        Those of ``leadline.statistics.definitions``.
    Not a number:
        As in the statistic's definition; NaN for an empty array, 0 for counts.
    Args:
        before: For ``update_ratio``, ``change_l2`` and ``close_…``: the array before the change; ``values`` is the
            one after it.
    Raises:
        UnknownNameError: No statistic has that name.
        KeyError: It is not a statistic of one array, is a vector, or needs ``before``.
    Source:
        Entrywise norms and population variance.
    """
    statistic = find_statistic(name)
    if statistic.source in ("change", "update"):
        if before is None:
            raise KeyError(f"{name} needs the array before the change")
        return _compare(statistic, before, values)
    if statistic.source == "bits":
        return checksum(values) if values.size else float("nan")
    if statistic.source == "batch":
        return batch_std(values)
    if statistic.derivation is not None:
        return _derived(statistic, statistic.derivation, _widen(values))
    if statistic.is_vector or statistic.source not in ("sample", "order"):
        raise KeyError(f"{name} is not a number, or not a statistic of one array")
    return _percentile(_widen(values), statistic.arguments[0] if statistic.arguments else 50.0)


def primary(name: str, values: Array) -> float:
    """Compute one primary of an array, accumulated in float64; see ``leadline.statistics.primaries.Primary``.

    Shape:
        values: any ``(*shape,)``; result: ``()``.
    Raises:
        KeyError: It is not a primary of one array.
    """
    return float(_primary(name, _widen(values)))


def compute_vector(name: str, values: Array) -> Floats:
    """Compute one vector statistic of an array exactly.

    Shape:
        values: any ``(*shape,)``; result: ``(2 + bins,)`` for a histogram, ``(units,)`` for statistics of
        units, ``(classes,)`` for counts, ``(samples, 2)`` for fingerprints, ``(groups,)`` for means of quantiles.
    Units:
        Those of ``leadline.statistics.definitions``.
    Not a number:
        As in the statistic's definition.
    Raises:
        UnknownNameError: No statistic has that name.
        KeyError: It is not a vector, or not a statistic of one array.
    """
    statistic = find_statistic(name)
    if statistic.name in ("histogram", "histogram_exact"):
        return histogram(np.sort(_only_finite(_widen(values))))
    if statistic.name == "quantile_means":
        return quantile_means(np.sort(_only_finite(_widen(values))), values.size)
    if statistic.source == "units":
        return _unit_statistic(statistic, units(values))
    if statistic.name == "class_counts":
        return class_counts(values)
    if statistic.source == "samples":
        return fingerprints(values)
    raise KeyError(f"{name} is not a vector, or not a statistic of one array")


def trimmed(name: str, stored: Array) -> Floats:
    """Return a vector statistic as stored by a device, without its padding.

    Shape:
        stored: as returned by ``compute_vector``, class counts also with zeros for classes above the highest; result:
        as returned by ``compute_vector``.
    """
    values = stored.astype(np.float64)
    if name == "class_counts":
        return values[: int(np.max(np.flatnonzero(values), initial=-1)) + 1]
    return values


def update_ratio(before: Array, after: Array) -> float:
    """Return the norm of a tensor's update, relative to the norm of the tensor.

    Shape:
        before, after: both ``(*shape,)``; result: ``()``.
    Units:
        A ratio; 0 = unchanged.
    Not a number:
        NaN in, NaN out; an all-zero ``before`` gives infinity, or 0 if nothing changed.
    Source:
        SageMaker developer guide, "WeightUpdateRatio".
    """
    change = change_l2(before, after)
    norm = math.sqrt(_squares(_wide(before)))
    if norm == 0.0:
        return 0.0 if change == 0.0 else change * float("inf")
    return change / norm


def change_l2(before: Array, after: Array) -> float:
    """Return the norm of the change from one array to another.

    Shape:
        before, after: both ``(*shape,)``; result: ``()``.
    Units:
        The unit of the elements.
    Not a number:
        NaN in, NaN out.
    """
    with np.errstate(all="ignore"):
        return math.sqrt(_squares(_wide(after) - _wide(before)))


def _squares(wide: Array) -> float:
    """Return the sum of the squares of moduli: NaN if a part of a complex number is NaN, even beside infinity."""
    parts = (wide.real, wide.imag) if np.iscomplexobj(wide) else (wide,)
    return sum(sum_of_squares(part.ravel()) for part in parts)


def sum_of_squares(flat: Floats) -> float:
    """Return the sum of the squares of a vector's elements.

    In the process of a training, ``numpy.dot`` and ``numpy.linalg.norm`` may take a hundred times as long: BLAS
    divides longer vectors among threads of its own, which get no processor while the framework's threads compute.
    """
    return float(np.einsum("i,i->", flat, flat))


def close(before: Array, after: Array, rtol: float, atol: float, *, equal_nan: bool = False) -> float:
    """Return the share of the elements that are close to their previous values.

    Shape:
        before, after: both ``(*shape,)``; result: ``()``.
    Units:
        A ratio; 1 = all.
    Not a number:
        NaN is close to nothing, or to NaN with ``equal_nan``; infinity is close to itself.
    Source:
        ``numpy.isclose(after, before, rtol, atol)``.
    """
    if not after.size:
        return float("nan")
    with np.errstate(all="ignore"):
        return float(np.isclose(_wide(after), _wide(before), rtol, atol, equal_nan=equal_nan).mean())


def batch_std(values: Array) -> float:
    """Return the mean over the features of the standard deviation over the samples.

    Shape:
        values: ``(samples, *features)``; result: ``()``. NaN for a single number.
    Units:
        The unit of the elements.
    Not a number:
        As in IEEE 754.
    """
    if not values.size or not values.ndim:
        return float("nan")
    with np.errstate(all="ignore"):
        return float(np.std(_moduli(values).reshape(len(values), -1), axis=0).mean())


def units(values: Array) -> Floats:
    """Return a tensor as samples of units.

    Shape:
        values: ``(samples, units)``, ``(samples, sequence, units)``, ``(samples, units, *places)`` from four
        dimensions on, otherwise all elements are samples of one unit; result: ``(samples, units)``.
    """
    wide = _moduli(values)
    if wide.ndim < 2:
        return wide.reshape(-1, 1)
    axis = 2 if wide.ndim == 3 else 1
    samples = math.prod(size for at, size in enumerate(wide.shape) if at != axis)
    return np.moveaxis(wide, axis, -1).reshape(samples, wide.shape[axis])


def histogram(ascending: Floats) -> Floats:
    """Return minimum, maximum, and the counts of the bins between them.

    Shape:
        ascending: ``(n,)``, finite, sorted; result: ``(2 + HISTOGRAM_BINS,)``, NaN and zeros if ``n`` is 0.
    Units:
        The unit of the elements; then counts.
    Source:
        ``numpy.histogram``: all bins but the last are half-open.
    """
    if not ascending.size:
        return np.array([np.nan, np.nan, *np.zeros(HISTOGRAM_BINS)])
    low, high = float(ascending[0]), float(ascending[-1])
    below = np.searchsorted(ascending, _inner_edges(low, high), side="left")
    counts = np.diff([0, *below, ascending.size])
    return np.array([low, high, *counts])


def quantile_means(ascending: Floats, size: int) -> Floats:
    """Return the means of groups of sorted elements, which are as large as each other as far as possible.

    Shape:
        ascending: ``(n,)``, the finite elements; result: ``(min(size, QUANTILES),)``.
    Not a number:
        A group without elements is NaN.
    Args:
        size: The number of elements, those that are not finite included.
    """
    groups = min(size, QUANTILES)
    edges = np.arange(groups + 1) * len(ascending) // max(groups, 1)
    sums = np.concatenate([[0.0], np.cumsum(ascending)])
    widths = np.diff(edges)
    means = np.full(groups, np.nan)
    np.divide(np.diff(sums[edges]), widths, out=means, where=widths > 0)
    return means


def class_counts(values: Array) -> Floats:
    """Return how often each class occurs.

    Shape:
        values: integers ``(*shape,)``, or floating logits ``(samples, classes, *places)``; one logit per
        sample (``(samples,)``, ``(samples, 1)``) means the classes 0 and 1. Result: ``(classes,)``, up to the highest
        class that occurs; negative classes and those from ``MAX_CLASSES`` on are ignored.
    Units:
        Counts.
    Not a number:
        NaN counts as the largest logit.
    """
    chosen, _ = _classes_of(values)
    return np.bincount(chosen[(chosen >= 0) & (chosen < MAX_CLASSES)]).astype(np.float64)


def confusion(labels: Array, logits: Array, *, threshold: float = 0.0) -> Floats | None:
    """Return how often each label was predicted as each class.

    Shape:
        logits: ``(samples, classes, *places)``, or one per sample: ``(samples,)``, ``(samples, 1)``;
        labels: classes ``(samples, *places)``, or their probabilities in the shape of the logits.
        With ``labels`` ``()``: logits ``(classes,)``.
        Result: ``(classes, classes)``, rows are labels, columns predictions; None for more than
        ``MAX_CLASSES``.
    Units:
        Counts; labels outside the classes (``ignore_index``) are ignored.
    Not a number:
        NaN counts as the largest logit.
    Args:
        threshold: For one logit per sample: above it the prediction is 1; 0.5 for probabilities.
    """
    if not labels.ndim and logits.ndim:
        logits = logits[None]
    predicted, classes = _classes_of(logits, threshold=threshold)
    if classes > MAX_CLASSES:
        return None
    if labels.shape == logits.shape and (labels.dtype.kind == "f" or labels.ndim > 1):
        actual, _ = _classes_of(labels.astype(np.float64), threshold=0.5)
    else:
        actual = labels.ravel().astype(np.int64)
    kept = (actual >= 0) & (actual < classes)
    counts = np.bincount(actual[kept] * classes + predicted[kept], minlength=classes * classes)
    return counts.reshape(classes, classes).astype(np.float64)


def _classes_of(values: Array, *, threshold: float = 0.0) -> tuple[npt.NDArray[np.int64], int]:
    """Return the class of each sample, and the number of classes (0 for integer classes: unknown)."""
    values = np.abs(values) if np.iscomplexobj(values) else values
    if values.dtype.kind in "iub":
        return values.ravel().astype(np.int64), 0
    if values.ndim < 2 or values.shape[1] == 1:
        return (values.ravel() > threshold).astype(np.int64), 2
    if not values.shape[1]:
        return np.zeros(0, np.int64), 0
    return np.argmax(values, axis=1).ravel(), values.shape[1]


def _compare(statistic: Statistic, before: Array, after: Array) -> float:
    if not after.size:
        return float("nan")
    if statistic.name == "update_ratio":
        return update_ratio(before, after)
    if statistic.name == "change_l2":
        return change_l2(before, after)
    rtol, atol = statistic.arguments
    return close(before, after, rtol, atol, equal_nan=statistic.family.endswith("_nan"))


def _unit_statistic(statistic: Statistic, matrix: Floats) -> Floats:
    with np.errstate(all="ignore"):
        if not len(matrix):
            return np.full(matrix.shape[1], np.nan)
        if statistic.name == "unit_activity":
            return np.asarray((matrix > 0).mean(0))
        if statistic.name == "unit_mean":
            return np.asarray(matrix.mean(0))
        if statistic.name == "unit_std":
            return np.asarray(matrix.std(0))
        low, high = statistic.arguments
        return np.asarray(((matrix >= low) & (matrix <= high)).mean(0))


def _wide(values: Array) -> Array:
    with np.errstate(all="ignore"):  # a signaling NaN would cause a warning
        return np.asarray(values).astype(np.complex128 if np.iscomplexobj(values) else np.float64)


def _moduli(values: Array) -> Floats:
    with np.errstate(all="ignore"):
        return np.abs(values).astype(np.float64) if np.iscomplexobj(values) else np.asarray(values).astype(np.float64)


def _widen(values: Array) -> Floats:
    return _moduli(values).ravel()


def _finite(flat: Floats) -> Floats:
    finite = _only_finite(flat)
    return finite if finite.size else flat


def _only_finite(flat: Floats) -> Floats:
    return flat[np.isfinite(flat)]


def _inner_edges(low: float, high: float) -> Floats:
    """Return the edges between the bins; a constant falls in the middle bin."""
    if low == high:
        return np.where(np.arange(1, HISTOGRAM_BINS) <= HISTOGRAM_BINS // 2, low, np.inf)
    width = high / HISTOGRAM_BINS - low / HISTOGRAM_BINS
    return np.asarray(low + width * np.arange(1, HISTOGRAM_BINS), dtype=np.float64)


def _percentile(flat: Floats, percent: float) -> float:
    finite = _only_finite(flat)
    return float(np.percentile(finite, percent)) if finite.size else float("nan")


def _derived(statistic: Statistic, derivation: Derivation, flat: Floats) -> float:
    if not flat.size:
        return 0.0 if statistic.unit == "count" else float("nan")
    with np.errstate(all="ignore"):
        known = {"size": flat.size, **{name: _primary(name, flat) for name in derivation.primaries}}
        return float(derivation.compute(np, known))


def _primary(name: str, flat: Floats) -> Any:
    if name in _PRIMARIES:
        with np.errstate(all="ignore"):
            return _PRIMARIES[name](flat) if flat.size else find_primary(name).start
    bounds = find_statistic(name).arguments
    return np.count_nonzero((flat >= bounds[0]) & (flat <= bounds[-1]))


def _centred(flat: Floats) -> Any:
    off = flat - flat.mean()
    return (off * off).sum()


_PRIMARIES: Final[dict[str, Callable[[Floats], Any]]] = {
    "sum": np.sum,
    "l1": lambda flat: np.abs(flat).sum(),
    "squares": sum_of_squares,
    "centred": _centred,
    "min": lambda flat: _finite(flat).min(),
    "max": lambda flat: _finite(flat).max(),
    "abs_min": lambda flat: np.abs(_finite(flat)).min(),
    "prod": np.prod,
    "zeros": lambda flat: np.count_nonzero(flat == 0),
    "nan_count": lambda flat: np.count_nonzero(np.isnan(flat)),
    "nonfinite_count": lambda flat: np.count_nonzero(~np.isfinite(flat)),
}
