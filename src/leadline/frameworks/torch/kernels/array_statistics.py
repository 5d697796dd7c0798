"""The device form of the statistics that are arrays: histograms, what is said of units, counts of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import torch

from leadline.frameworks.torch.kernels.order_statistics import widened
from leadline.frameworks.torch.kernels.samples import sorted_rows
from leadline.statistics.definitions import HISTOGRAM_BINS, MOST_CLASSES, Statistic, find_statistic
from leadline.store.layout import vector_name

_PIECE_ELEMENTS: Final = 1 << 21
"""So many elements are widened to float64 at once."""


def device_vectors(tensors: Sequence[torch.Tensor], statistics: Sequence[str]) -> list[list[torch.Tensor]]:
    """Statistics that are arrays, of many tensors; the device is not waited for.

    Args:
        tensors: Readable ones, on one device.
        statistics: Names of vectors of one tensor (not ``confusion``).
    Returns:
        For each tensor one array a statistic, shaped as in ``arrays.compute_vector`` (``class_counts`` of integers:
        ``(MOST_CLASSES,)``), float64 or int32, and nobody else's.
    Not a number:
        As the definitions say.
    """
    found: list[list[torch.Tensor]] = [[] for _ in tensors]
    for name in statistics:
        statistic = find_statistic(name)
        made = _histograms(tensors, statistic) if statistic.source in ("sample", "order") else None
        for index, tensor in enumerate(tensors):
            if made is not None:
                found[index].append(made[index])
            elif statistic.source == "units":
                found[index].append(_of_units(_dense(tensor), statistic))
            else:
                found[index].append(class_counts(_dense(tensor)))
    return found


def named_vectors(
    names: Sequence[str], tensors: Sequence[torch.Tensor], statistics: Sequence[str]
) -> list[tuple[str, torch.Tensor]]:
    """The arrays of ``device_vectors`` as raw tensors, under the names by which a reader finds them."""
    return [
        (vector_name(name, statistic), each)
        for name, found in zip(names, device_vectors(tensors, statistics), strict=True)
        for statistic, each in zip(statistics, found, strict=True)
    ]


def split(statistics: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The numbers and the arrays among statistics of one tensor; what only a single number has is left out.

    With an array goes the number ``nonfinite_count``, so that the series tells the tensor's collections and shape.
    """
    asked = frozenset(each for each in statistics if find_statistic(each).source != "number")
    arrays = frozenset(each for each in asked if find_statistic(each).is_vector)
    numbers = asked - arrays | ({"nonfinite_count"} if arrays else set())
    return tuple(sorted(numbers)), tuple(sorted(arrays - {"confusion"}))


def class_counts(values: torch.Tensor) -> torch.Tensor:
    """How often each class occurs, as ``arrays.class_counts``; int32.

    Shape:
        values: integers ``(*shape,)``, or logits ``(samples, classes, *places)``; result: ``(classes,)``, of
        integers ``(MOST_CLASSES,)``.
    """
    chosen, classes = _classes_of(values, threshold=0.0)
    size = min(classes or MOST_CLASSES, MOST_CLASSES)
    return _count(chosen, (chosen >= 0) & (chosen < size), size)


def confusion(labels: torch.Tensor, logits: torch.Tensor, *, threshold: float = 0.0) -> torch.Tensor | None:
    """How often a label (row) was predicted as a class (column), as ``arrays.confusion``; int32.

    The device is not waited for. To be called as everything of ours in the training: without autograd and function
    modes.

    Shape:
        logits: ``(samples, classes, *places)``, or one a sample: ``(samples,)``, ``(samples, 1)``;
        labels: classes ``(samples, *places)``, or their probabilities, shaped as the logits.
        With ``labels`` ``()``: logits ``(classes,)``.
        Result: ``(classes, classes)``; None where there are more than ``MOST_CLASSES``.
    Units:
        Counts; labels beyond the classes (``ignore_index``) are left out.
    Not a number:
        NaN counts as the largest logit.
    Args:
        threshold: For one logit a sample: above it the prediction is 1; 0.5 where they are probabilities.
    """
    if not labels.dim() and logits.dim():
        logits = logits[None]
    predicted, classes = _classes_of(logits, threshold=threshold)
    if classes > MOST_CLASSES:
        return None
    if labels.shape == logits.shape and (labels.is_floating_point() or labels.dim() > 1):
        actual, _ = _classes_of(labels.double(), threshold=0.5)
    else:
        actual = labels.reshape(-1).long()
    counts = _count(actual * classes + predicted, (actual >= 0) & (actual < classes), classes * classes)
    return counts.view(classes, classes)


def _count(places: torch.Tensor, is_counted: torch.Tensor, size: int) -> torch.Tensor:
    """How often each place below ``size`` occurs; what is not counted falls behind the last."""
    counts = torch.zeros(size + 1, dtype=torch.int32, device=places.device)
    kept = torch.where(is_counted, places, size)
    return counts.index_add_(0, kept, torch.ones_like(kept, dtype=torch.int32))[:size].clone()


def _classes_of(values: torch.Tensor, *, threshold: float) -> tuple[torch.Tensor, int]:
    """The class of each sample, and how many there are; of integers 0: not known."""
    values = values.abs() if values.is_complex() else values
    if not values.is_floating_point():
        return values.reshape(-1).long(), 0
    own = values.float() if values.element_size() == 1 else values
    if own.dim() < 2 or own.shape[1] == 1:
        return (own.reshape(-1) > threshold).long(), 2
    if not own.shape[1]:
        return values.new_zeros(0, dtype=torch.int64), 0
    return own.argmax(1).reshape(-1), own.shape[1]


def _histograms(tensors: Sequence[torch.Tensor], statistic: Statistic) -> list[torch.Tensor]:
    none = torch.zeros(2 + HISTOGRAM_BINS, dtype=torch.float64, device=tensors[0].device)
    none[:2].fill_(float("nan"))  # on the device: one made on the host would have to be waited for
    made = [none for _ in tensors]
    for rows in sorted_rows(tensors, is_sampled=statistic.source == "sample"):
        for index, each in zip(rows.owners, rows.histograms(), strict=True):
            made[index] = each
    return made


def _of_units(tensor: torch.Tensor, statistic: Statistic) -> torch.Tensor:
    """One number a unit, over all samples, piece by piece of dimension 0."""
    shaped = tensor if tensor.dim() > 1 else tensor.reshape(-1, 1)
    axis = 2 if shaped.dim() == 3 else 1
    samples = shaped.numel() // max(shaped.shape[axis], 1)
    others = [each for each in range(shaped.dim()) if each != axis]

    def total(of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        result = torch.zeros(shaped.shape[axis], dtype=torch.float64, device=tensor.device)
        each = max(_PIECE_ELEMENTS * len(shaped) // max(shaped.numel(), 1), 1) if len(shaped) else 1
        for piece in shaped.split(each):
            result += of(widened(piece)).sum(others)
        return result

    if statistic.name == "unit_activity":
        return total(lambda piece: piece > 0) / samples
    if statistic.family:
        low, high = statistic.arguments
        return total(lambda piece: (piece >= low) & (piece <= high)) / samples
    mean = total(lambda piece: piece) / samples
    if statistic.name == "unit_mean":
        return mean
    about = mean.view([-1 if each == axis else 1 for each in range(shaped.dim())])
    return (total(lambda piece: (piece - about).square()) / samples).sqrt()


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_dense() if tensor.layout is torch.sparse_coo else tensor
