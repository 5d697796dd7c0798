"""Device implementation of array statistics: histograms, quantiles, unit statistics, class counts, fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import torch

from leadline.frameworks.torch.kernels.order_statistics import device_weights, to_float64
from leadline.frameworks.torch.kernels.samples import sorted_rows
from leadline.statistics.definitions import (
    FINGERPRINTED_ELEMENTS,
    FINGERPRINTED_SAMPLES,
    HISTOGRAM_BINS,
    MAX_CLASSES,
    Statistic,
    find_statistic,
)
from leadline.store.layout import vector_name

_HALF: Final = (1 << 32) - 1
_PIECE_ELEMENTS: Final = 1 << 21
"""Number of elements converted to float64 at once."""


def device_vectors(tensors: Sequence[torch.Tensor], statistics: Sequence[str]) -> list[list[torch.Tensor]]:
    """Compute array statistics of many tensors, without waiting for the device.

    Args:
        tensors: Readable tensors on one device.
        statistics: Names of vectors of one tensor (not ``confusion``).
    Returns:
        For each tensor one array per statistic, shaped as in ``arrays.compute_vector`` (``class_counts`` of integers:
        ``(MOST_CLASSES,)``), float64 or int32, not shared with anything else.
    Not a number:
        As defined in ``statistics.definitions``.
    """
    arrays: list[list[torch.Tensor]] = [[] for _ in tensors]
    for name in statistics:
        statistic = find_statistic(name)
        of_sorted = _of_sorted(tensors, statistic) if statistic.source in ("sample", "order") else None
        for index, tensor in enumerate(tensors):
            if of_sorted is not None:
                arrays[index].append(of_sorted[index])
            elif statistic.source == "units":
                arrays[index].append(_unit_statistic(_dense(tensor), statistic))
            elif statistic.source == "samples":
                arrays[index].append(fingerprints(_dense(tensor)))
            else:
                arrays[index].append(class_counts(_dense(tensor)))
    return arrays


def named_vectors(
    names: Sequence[str], tensors: Sequence[torch.Tensor], statistics: Sequence[str]
) -> list[tuple[str, torch.Tensor]]:
    """Return the arrays of ``device_vectors`` as raw tensors, under their stored names."""
    return [
        (vector_name(name, statistic), array)
        for name, arrays in zip(names, device_vectors(tensors, statistics), strict=True)
        for statistic, array in zip(statistics, arrays, strict=True)
    ]


def split_arrays(statistics: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split statistics of one tensor into numbers and arrays; statistics of single numbers are dropped.

    Arrays are accompanied by the number ``nonfinite_count``, so that the series records the tensor's collections and
    shape.
    """
    requested = frozenset(name for name in statistics if find_statistic(name).source != "number")
    arrays = frozenset(name for name in requested if find_statistic(name).is_vector)
    numbers = requested - arrays | ({"nonfinite_count"} if arrays else set())
    return tuple(sorted(numbers)), tuple(sorted(arrays - {"confusion"}))


def class_counts(values: torch.Tensor) -> torch.Tensor:
    """Count the occurrences of each class, as ``arrays.class_counts``; int32.

    Shape:
        values: integers ``(*shape,)``, or logits ``(samples, classes, *places)``; result: ``(classes,)``, of
        integers ``(MAX_CLASSES,)``.
    """
    chosen, classes = _predicted_classes(values, threshold=0.0)
    size = min(classes or MAX_CLASSES, MAX_CLASSES)
    return _count(chosen, (chosen >= 0) & (chosen < size), size)


def fingerprints(values: torch.Tensor) -> torch.Tensor:
    """Return 64 bits for each sample, as ``bits.fingerprints``; float64.

    Shape:
        values: ``(samples, *shape)``; result: ``(samples, 2)``.
    """
    values = values.abs() if values.is_complex() else values
    if not values.dim() or not values.numel():
        return torch.zeros((0, 2), dtype=torch.float64, device=values.device)
    rows = values[:FINGERPRINTED_SAMPLES].flatten(1) if values.dim() > 1 else values[:FINGERPRINTED_SAMPLES, None]
    if (size := rows.shape[1]) > FINGERPRINTED_ELEMENTS:
        rows = rows[:, torch.arange(FINGERPRINTED_ELEMENTS, device=rows.device) * size // FINGERPRINTED_ELEMENTS]
    numbers = to_float64(rows) + 0.0
    lanes = numbers.masked_fill(numbers.isnan(), float("nan")).view(torch.int64)
    lanes = (lanes ^ (lanes >> 32)) * device_weights(rows.device)[: rows.shape[1]]
    sums = (lanes ^ (lanes >> 32)).sum(1)
    return torch.stack([(sums >> 32) & _HALF, sums & _HALF], 1).double()


def confusion(labels: torch.Tensor, logits: torch.Tensor, *, threshold: float = 0.0) -> torch.Tensor | None:
    """Count how often each label (row) was predicted as each class (column), as ``arrays.confusion``; int32.

    Does not wait for the device. Must be called without autograd and function modes, like all capture code in the
    training.

    Shape:
        logits: ``(samples, classes, *places)``, or one per sample: ``(samples,)``, ``(samples, 1)``;
        labels: classes ``(samples, *places)``, or their probabilities, shaped as the logits.
        With ``labels`` ``()``: logits ``(classes,)``.
        Result: ``(classes, classes)``; None for more than ``MOST_CLASSES`` classes.
    Units:
        Counts; labels outside the classes (``ignore_index``) are ignored.
    Not a number:
        NaN counts as the largest logit.
    Args:
        threshold: With one logit per sample: above it the prediction is 1; 0.5 for probabilities.
    """
    if not labels.dim() and logits.dim():
        logits = logits[None]
    predicted, classes = _predicted_classes(logits, threshold=threshold)
    if classes > MAX_CLASSES:
        return None
    if labels.shape == logits.shape and (labels.is_floating_point() or labels.dim() > 1):
        actual, _ = _predicted_classes(labels.double(), threshold=0.5)
    else:
        actual = labels.reshape(-1).long()
    counts = _count(actual * classes + predicted, (actual >= 0) & (actual < classes), classes * classes)
    return counts.view(classes, classes)


def _count(places: torch.Tensor, is_counted: torch.Tensor, size: int) -> torch.Tensor:
    """Count the occurrences of each index below ``size``; entries not to be counted go into an extra last bin."""
    counts = torch.zeros(size + 1, dtype=torch.int32, device=places.device)
    kept = torch.where(is_counted, places, size)
    return counts.index_add_(0, kept, torch.ones_like(kept, dtype=torch.int32))[:size].clone()


def _predicted_classes(values: torch.Tensor, *, threshold: float) -> tuple[torch.Tensor, int]:
    """Return the class of each sample and the number of classes; 0 for integers: unknown."""
    values = values.abs() if values.is_complex() else values
    if not values.is_floating_point():
        return values.reshape(-1).long(), 0
    logits = values.float() if values.element_size() == 1 else values
    if logits.dim() < 2 or logits.shape[1] == 1:
        return (logits.reshape(-1) > threshold).long(), 2
    if not logits.shape[1]:
        return values.new_zeros(0, dtype=torch.int64), 0
    return logits.argmax(1).reshape(-1), logits.shape[1]


def _of_sorted(tensors: Sequence[torch.Tensor], statistic: Statistic) -> list[torch.Tensor]:
    """Return a statistic of the sorted elements of each tensor."""
    is_histogram = statistic.name != "quantile_means"
    empty = torch.zeros(2 + HISTOGRAM_BINS if is_histogram else 0, dtype=torch.float64, device=tensors[0].device)
    empty[:2].fill_(float("nan"))  # on the device: copying it from the host would wait
    arrays = [empty for _ in tensors]
    for rows in sorted_rows(tensors, is_sampled=statistic.source == "sample"):
        computed = rows.histograms() if is_histogram else rows.quantile_means()
        for index, array in zip(rows.owners, computed, strict=True):
            arrays[index] = array
    return arrays


def _unit_statistic(tensor: torch.Tensor, statistic: Statistic) -> torch.Tensor:
    """Compute one number per unit over all samples, in chunks of dimension 0."""
    shaped = tensor if tensor.dim() > 1 else tensor.reshape(-1, 1)
    axis = 2 if shaped.dim() == 3 else 1
    samples = shaped.numel() // max(shaped.shape[axis], 1)
    others = [dim for dim in range(shaped.dim()) if dim != axis]

    def total(of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        result = torch.zeros(shaped.shape[axis], dtype=torch.float64, device=tensor.device)
        rows = max(_PIECE_ELEMENTS * len(shaped) // max(shaped.numel(), 1), 1) if len(shaped) else 1
        for piece in shaped.split(rows):
            result += of(to_float64(piece)).sum(others)
        return result

    if statistic.name == "unit_activity":
        return total(lambda piece: piece > 0) / samples
    if statistic.family:
        low, high = statistic.arguments
        return total(lambda piece: (piece >= low) & (piece <= high)) / samples
    mean = total(lambda piece: piece) / samples
    if statistic.name == "unit_mean":
        return mean
    center = mean.view([-1 if dim == axis else 1 for dim in range(shaped.dim())])
    return (total(lambda piece: (piece - center).square()) / samples).sqrt()


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_dense() if tensor.layout is torch.sparse_coo else tensor
