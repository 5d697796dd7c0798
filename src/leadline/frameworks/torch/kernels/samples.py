"""Order statistics on any device from sorted rows of elements, full or sampled, without synchronization."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numpy as np
import torch

from leadline.frameworks.torch.kernels.elements import Elements, elements
from leadline.statistics.definitions import HISTOGRAM_BINS, QUANTILES, SAMPLE_ELEMENTS


@lru_cache(maxsize=4096)
def stride_of(size: int) -> int:
    """Return the distance between the elements of a sample: 1 up to ``SAMPLE_ELEMENTS``.

    It has no common factor with the number of elements, so that the sample covers every row, column and channel
    evenly, whatever the shape.
    """
    stride = -(-size // SAMPLE_ELEMENTS)
    while gcd(stride, size) > 1:
        stride += 1
    return stride


def sample_of(flat: torch.Tensor) -> torch.Tensor:
    """Return the sample of a one-dimensional tensor, as a view."""
    stride = stride_of(flat.numel()) if flat.numel() else 1
    return flat if stride == 1 else flat[::stride]


@dataclass(frozen=True, slots=True)
class Rows:
    """Sorted rows, one per tensor: the finite elements first, then infinity in place of all others."""

    owners: tuple[int, ...]
    """Indices of the rows' tensors."""
    matrix: torch.Tensor
    """Shape ``(len(owners), n)``, ascending."""
    counts: torch.Tensor
    """Number of finite elements per row, ``(len(owners),)``."""

    def percentiles(self, percents: Sequence[float]) -> torch.Tensor:
        """Return linearly interpolated percentiles, NaN without finite elements; ``(len(percents), len(owners))``."""
        last = (self.counts - 1).clamp(min=0).double()
        places = torch.stack([last * (percent / 100) for percent in percents])
        lower = places.floor()
        upper = torch.minimum(lower + 1, last)
        low = self.matrix.gather(1, lower.long().t()).double().t()
        high = self.matrix.gather(1, upper.long().t()).double().t()
        interpolated = torch.lerp(low, high, places - lower)
        return torch.where(self.counts > 0, interpolated, float("nan"))

    def histograms(self) -> torch.Tensor:
        """Return bounds and bin counts per row, as ``arrays.histogram``; ``(len(owners), 2 + HISTOGRAM_BINS)``."""
        wide = self.matrix.double()
        low = wide[:, :1]
        high = wide.gather(1, (self.counts - 1).clamp(min=0)[:, None])
        below = torch.searchsorted(wide, self._inner_edges(low, high))
        ends = torch.cat([torch.zeros_like(below[:, :1]), below, self.counts[:, None]], 1)
        bounds = torch.where(self.counts[:, None] > 0, torch.cat([low, high], 1), float("nan"))
        return torch.cat([bounds, ends.diff(dim=1).double()], 1)

    def quantile_means(self) -> torch.Tensor:
        """Return the means of groups of elements per row, as ``arrays.quantile_means``; ``(len(owners), groups)``."""
        wide = self.matrix.double()
        sums = torch.where(torch.isfinite(wide), wide, 0.0).cumsum(1)
        sums = torch.cat([torch.zeros_like(sums[:, :1]), sums], 1)
        groups = min(wide.shape[1], QUANTILES)
        edges = torch.arange(groups + 1, device=wide.device) * self.counts[:, None] // groups
        return sums.gather(1, edges).diff(dim=1) / edges.diff(dim=1)

    def _inner_edges(self, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        order = torch.arange(1, HISTOGRAM_BINS, device=low.device, dtype=torch.float64)[None]
        copiers = low + (high / HISTOGRAM_BINS - low / HISTOGRAM_BINS) * order
        of_constant = torch.where(order <= HISTOGRAM_BINS // 2, low, float("inf"))
        return torch.where((low < high) & (self.counts[:, None] > 0), copiers, of_constant)


def sorted_rows(tensors: Sequence[torch.Tensor], *, is_sampled: bool) -> Iterator[Rows]:
    """Yield the elements of tensors in ascending order; empty tensors have no row.

    Args:
        tensors: Readable tensors on one device.
        is_sampled: Whether a sample is sufficient; then tensors of one size are sorted together.
    """
    by_size: dict[tuple[int, torch.dtype], list[tuple[int, torch.Tensor]]] = {}
    for index, tensor in enumerate(tensors):
        row = _row(elements(tensor), is_sampled=is_sampled)
        if not row.numel():
            continue
        if is_sampled:
            by_size.setdefault((row.numel(), row.dtype), []).append((index, row))
        else:
            yield _sorted((index,), row[None])
    for (length, _), rows in by_size.items():
        matrix = torch.cat([row for _, row in rows]) if len(rows) > 1 else rows[0][1]
        yield _sorted(tuple(index for index, _ in rows), matrix.view(-1, length) if len(rows) > 1 else matrix[None])


def _row(part: Elements, *, is_sampled: bool) -> torch.Tensor:
    """Return the elements or a sample of them, with a proportional share of a sparse tensor's implicit zeros."""
    stride = stride_of(part.size) if is_sampled and part.size else 1
    stored = part.flat if stride == 1 else part.flat[::stride]
    if not part.implicit_zeros:
        return stored
    return torch.cat([stored, stored.new_zeros(-(-part.size // stride) - stored.numel())])


def _sorted(owners: tuple[int, ...], rows: torch.Tensor) -> Rows:
    is_finite = torch.isfinite(rows)
    kept = torch.where(is_finite, rows, float("inf"))
    if kept.device.type == "cpu":
        ascending = torch.from_numpy(np.sort(kept.numpy(), axis=1))  # a fifth of the time of torch.sort
    else:
        ascending = kept.sort(dim=1).values
    return Rows(owners, ascending, is_finite.sum(1))
