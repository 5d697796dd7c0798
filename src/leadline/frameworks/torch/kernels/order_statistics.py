"""The statistics that are no sums: of order, of bits, over samples, of change; one form for every device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels import checksums
from leadline.frameworks.torch.kernels.deltas import Deltas
from leadline.frameworks.torch.kernels.samples import sorted_rows
from leadline.statistics.definitions import Source, Statistic, find_statistic

Vector = npt.NDArray[np.float64]
Finish = Callable[[Vector], Vector]

SOURCES: Final = frozenset({"sample", "order", "bits", "batch", "change"})
"""What the statistics of this form are computed from."""
_MATRIX_ELEMENTS: Final = 1 << 21
"""So many elements are widened to float64 at once."""


class PreviousValues:
    """What tensors are called, and the memory in which they stand under these names."""

    def __init__(self, changes: Deltas, names: Sequence[str]) -> None:
        self.changes, self.names = changes, names


def begin(
    tensors: Sequence[torch.Tensor], statistics: Sequence[str], recall: PreviousValues | None = None
) -> tuple[torch.Tensor, Finish]:
    """Have a device compute statistics of many tensors; it is not waited for.

    Args:
        tensors: Readable ones (``elements.why_unreadable``), on one device.
        statistics: Names of statistics whose source is in ``SOURCES``, no vectors.
        recall: The tensors' names, for what is compared with the previous capture; None: it is absent.
    Shape:
        Numbers on the device: ``(n,)``, float64; of these, on the host, the second result makes
        ``(len(statistics) * len(tensors),)``, statistic by statistic.
    Not a number:
        As the definitions say.
    """
    by_source: dict[Source, list[Statistic]] = {}
    for name in statistics:
        by_source.setdefault(find_statistic(name).source, []).append(find_statistic(name))
    parts: list[tuple[list[Statistic], torch.Tensor, Finish]] = []
    for source, wanted in by_source.items():
        parts.append((wanted, *_begin_one(source, tensors, wanted, recall)))
    numbers = torch.cat([each.to(tensors[0].device) for _, each, _ in parts])
    count = len(tensors)  # what finishes later must hold no tensor of the training

    def finish(come: Vector) -> Vector:
        found, at = {}, 0
        for wanted, own, finish_own in parts:
            values = finish_own(come[at : at + own.numel()]).reshape(len(wanted), count)
            found.update({each.name: row for each, row in zip(wanted, values, strict=True)})
            at += own.numel()
        return np.concatenate([found[name] for name in statistics])

    return numbers, finish


def _begin_one(
    source: Source, tensors: Sequence[torch.Tensor], wanted: Sequence[Statistic], recall: PreviousValues | None
) -> tuple[torch.Tensor, Finish]:
    if source in ("sample", "order"):
        return _begin_order(tensors, wanted, is_sampled=source == "sample")
    if source == "bits":
        return checksums.begin(tensors)
    if source == "batch":
        return torch.stack([batch_std(tensor) for tensor in tensors]), lambda come: come
    count = len(tensors)
    if recall is None:
        return _nothing(tensors[0].device), lambda come: np.full(len(wanted) * count, np.nan)
    return recall.changes.begin(recall.names, tensors, [each.name for each in wanted])


def _begin_order(
    tensors: Sequence[torch.Tensor], wanted: Sequence[Statistic], *, is_sampled: bool
) -> tuple[torch.Tensor, Finish]:
    percents = [each.arguments[0] if each.arguments else 50.0 for each in wanted]
    owners: list[int] = []
    count = len(tensors)
    blocks: list[torch.Tensor] = []
    for rows in sorted_rows(tensors, is_sampled=is_sampled):
        owners += rows.owners
        blocks.append(rows.percentiles(percents))
    if not blocks:
        return _nothing(tensors[0].device), lambda come: np.full(len(wanted) * count, np.nan)

    def finish(come: Vector) -> Vector:
        # on the host: an index would have to be copied to the device, which waits for it
        found = np.full((len(wanted), count), np.nan)
        found[:, owners] = come.reshape(len(wanted), -1)
        return found.reshape(-1)

    return torch.cat(blocks, 1).reshape(-1), finish


def _nothing(device: torch.device) -> torch.Tensor:
    return torch.zeros(0, dtype=torch.float64, device=device)


def batch_std(tensor: torch.Tensor) -> torch.Tensor:
    """Mean over the features of the standard deviation over the samples, as ``arrays.batch_std``; ``()``, float64."""
    dense = tensor.to_dense() if tensor.layout is torch.sparse_coo else tensor
    if not dense.numel() or not dense.dim():
        return torch.full((), float("nan"), dtype=torch.float64, device=tensor.device)
    matrix = dense.reshape(len(dense), -1)
    total = torch.zeros((), dtype=torch.float64, device=tensor.device)
    for part in matrix.split(max(_MATRIX_ELEMENTS // len(dense), 1), dim=1):
        wide = widened(part)
        off = wide - wide.mean(0)
        total += (off * off).mean(0).sqrt().sum()
    return total / matrix.shape[1]


def widened(part: torch.Tensor) -> torch.Tensor:
    """In float64; of complex numbers the moduli."""
    own = part.abs() if part.is_complex() else part
    return (own.float() if own.is_floating_point() and own.element_size() == 1 else own).double()
