"""Implementation of the statistics for accelerators by PyTorch's own kernels, in float64, without synchronization.

For the statistics, tensors and devices that ``fused_statistics`` does not serve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels.elements import elements, flatten
from leadline.statistics.definitions import find_statistic, primaries
from leadline.statistics.primaries import derive, find_primary

Vector = npt.NDArray[np.float64]

_MATRIX_ELEMENTS: Final = 1 << 21
"""Number of elements converted to float64 at once: 16 MB, and as much again for a mask or a difference."""


def begin(tensors: Sequence[torch.Tensor], names: Sequence[str]) -> tuple[torch.Tensor, Callable[[Vector], Vector]]:
    """Start computing statistics of many tensors on their device.

    The tensors may change as soon as this returns: unlike the host implementation, which reads a tensor again if a
    reduction is not finite, this one counts non-finite elements in the same pass.

    Args:
        tensors: Readable tensors (``elements.unreadable_reason``) on one device.
        names: Statistics that ``supports`` accepts.
    Shape:
        Numbers on the device: ``(n,)``, float64; the second result turns them, on the host, into
        ``(len(names) * len(tensors),)``, ordered by name.
    Not a number:
        As defined in ``statistics.definitions``.
    """
    plan = _Plan(tensors)
    wanted = _kernels_of(tuple(names))
    kernels = [_kernel(primary) for primary in wanted]
    numbers = [kernel(matrix) for matrix in plan.matrices() for kernel in kernels]
    plan.release_tensors()
    flat = torch.cat(numbers) if numbers else torch.zeros(0, dtype=torch.float64, device=tensors[0].device)

    def finish(fetched: Vector) -> Vector:
        reduced = plan.combine(fetched, wanted)
        return np.concatenate(derive(names, reduced))

    return flat, finish


@lru_cache(maxsize=256)
def _kernels_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the primaries that statistics need, in order."""
    return tuple(sorted({*primaries(frozenset(names)), *_ALWAYS_COMPUTED}))


def supports(name: str) -> bool:
    """Whether a statistic can be computed by this module."""
    statistic = find_statistic(name)
    return statistic.family in _SHARES or bool(
        statistic.derivation and _KERNELS.keys() >= {*statistic.derivation.primaries}
    )


class _Matrix:
    """Rows of equal length in float64, with intermediate results that several kernels share."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows
        self._nonfinite: torch.Tensor | None = None
        self._total: torch.Tensor | None = None

    @property
    def nonfinite(self) -> torch.Tensor:
        """Mask of elements that are NaN or infinite: for these x - x is NaN, for others 0."""
        if self._nonfinite is None:
            self._nonfinite = torch.isnan(self.rows - self.rows)
        return self._nonfinite

    @property
    def total(self) -> torch.Tensor:
        if self._total is None:
            self._total = self.rows.sum(1)
        return self._total


class _Plan:
    """Assignment of elements to matrix rows: tensors of one size together, large tensors in pieces."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._flats: list[torch.Tensor] = []
        zeros = []
        for tensor in tensors:
            flat, implicit = flat_elements(tensor)
            self._flats.append(flat)
            zeros.append(implicit)
        self._implicit_zeros = np.array(zeros, dtype=np.float64)
        self._sizes = np.array([flat.numel() for flat in self._flats], dtype=np.float64)
        by_size: dict[tuple[int, torch.dtype], list[int]] = {}
        for index, flat in enumerate(self._flats):
            if flat.numel():
                by_size.setdefault((flat.numel(), flat.dtype), []).append(index)
        self._batches: list[tuple[list[int], int, int]] = []
        """Indices of tensors, and start and end of their piece."""
        for (size, _), indices in by_size.items():
            pieces = range(0, size, _MATRIX_ELEMENTS)
            count = max(_MATRIX_ELEMENTS // size, 1)
            for at in range(0, len(indices), count):
                self._batches += [(indices[at : at + count], start, start + _MATRIX_ELEMENTS) for start in pieces]

    def matrices(self) -> Iterator[_Matrix]:
        return map(self._matrix, self._batches)

    def release_tensors(self) -> None:
        """Release the tensors: the numbers may take steps to arrive, and must not keep the training's memory alive."""
        self._flats.clear()

    def _matrix(self, batch: tuple[list[int], int, int]) -> _Matrix:
        indices, start, end = batch
        rows = [self._flats[index][start:end] for index in indices]
        return _Matrix(to_float64(torch.stack(rows) if len(rows) > 1 else rows[0][None]))

    def combine(self, fetched: Vector, primaries: Sequence[str]) -> dict[str, Vector]:
        """Combine pieces into one number per tensor and primary, and the size of each."""
        reduced = {name: np.full(len(self._sizes), find_primary(name).start) for name in primaries}
        reduced["size"] = self._sizes + self._implicit_zeros
        pieces: dict[str, list[tuple[list[int], float, Vector]]] = {name: [] for name in primaries}
        at = 0
        for indices, start, end in self._batches:
            length = min(end, self._sizes[indices[0]]) - start
            for name in primaries:
                pieces[name].append((indices, length, fetched[at : at + len(indices)]))
                at += len(indices)
        with np.errstate(all="ignore"):
            for name in primaries:
                merge = find_primary(name).merge
                for indices, _, values in pieces[name]:
                    reduced[name][indices] = merge(reduced[name][indices], values)
            if "centred" in reduced:
                self._add_between_pieces(reduced, pieces)
            self._add_implicit_zeros(reduced)
        _replace_extrema(reduced)
        return reduced

    def _add_between_pieces(
        self, reduced: dict[str, Vector], pieces: dict[str, list[tuple[list[int], float, Vector]]]
    ) -> None:
        """Correct the centred squares from piece means to the overall mean (Chan, Golub, LeVeque)."""
        means = reduced["sum"] / self._sizes
        for indices, length, totals in pieces["sum"]:
            if length < self._sizes[indices[0]]:
                off = totals / length - means[indices]
                reduced["centred"][indices] += length * off * off

    def _add_implicit_zeros(self, reduced: dict[str, Vector]) -> None:
        """Account for the zeros that a sparse tensor does not store."""
        some = self._implicit_zeros > 0
        if not some.any():
            return
        for name in ("min", "max", "abs_min"):
            if name in reduced:
                reduced[name][some] = find_primary(name).merge(reduced[name][some], 0.0)
        for name, values in reduced.items():
            if name == "zeros" or (name not in _KERNELS and name != "size" and _holds_zero(name)):
                values += self._implicit_zeros
        if "prod" in reduced:
            reduced["prod"][some] *= 0.0
        if "centred" in reduced:
            means = np.where(self._sizes > 0, reduced["sum"] / np.maximum(self._sizes, 1), 0.0)
            reduced["centred"] += np.where(some, means * means * self._sizes * self._implicit_zeros, 0.0) / np.maximum(
                reduced["size"], 1
            )


def _replace_extrema(reduced: dict[str, Vector]) -> None:
    """Replace the extrema of tensors without finite elements by those of all elements."""
    none_finite = reduced["nonfinite_count"] >= reduced["size"]
    if not none_finite.any():
        return
    has_nan = reduced["nan_count"] > 0
    has_both_infinities = ~has_nan & np.isnan(reduced["sum"])
    of_all = {
        "min": np.where(has_both_infinities, -np.inf, reduced["sum"]),
        "max": np.where(has_both_infinities, np.inf, reduced["sum"]),
        "abs_min": np.where(has_nan, np.nan, np.inf),
    }
    for name, values in of_all.items():
        if name in reduced:
            reduced[name] = np.where(none_finite, values, reduced[name])


def flat_elements(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return the elements that a tensor stores, and the number of zeros that it does not store."""
    if tensor.layout is torch.sparse_coo or tensor.is_complex():
        values = elements(tensor)  # a sparse tensor must be waited for: its number of elements is on the device
        return values.flat, values.implicit_zeros
    return flatten(tensor), 0


def to_float64(rows: torch.Tensor) -> torch.Tensor:
    """Convert real numbers of any type to float64."""
    if rows.is_floating_point() and rows.element_size() == 1:
        rows = rows.float()
    return rows.double()


def _centred(matrix: _Matrix) -> torch.Tensor:
    off = matrix.rows - (matrix.total / matrix.rows.shape[1])[:, None]
    return torch.linalg.vector_norm(off, dim=1).square()


def _kernel(primary: str) -> Callable[[_Matrix], torch.Tensor]:
    if primary in _KERNELS:
        return _KERNELS[primary]
    statistic = find_statistic(primary)
    counted, numbers = _SHARES[statistic.family], statistic.arguments
    return lambda matrix: counted(matrix.rows, *numbers).sum(1).double()


def _holds_zero(share: str) -> bool:
    statistic = find_statistic(share)
    return bool(_SHARES[statistic.family](np.zeros(()), *statistic.arguments))


_ALWAYS_COMPUTED: Final = ("sum", "nan_count", "nonfinite_count")
"""Primaries that determine the extrema of tensors without finite elements."""
_KERNELS: Final[dict[str, Callable[[_Matrix], torch.Tensor]]] = {
    "sum": lambda m: m.total,
    "min": lambda m: m.rows.masked_fill(m.nonfinite, float("inf")).amin(1),
    "max": lambda m: m.rows.masked_fill(m.nonfinite, float("-inf")).amax(1),
    "abs_min": lambda m: m.rows.masked_fill(m.nonfinite, float("inf")).abs().amin(1),
    "l1": lambda m: torch.linalg.vector_norm(m.rows, 1, dim=1),
    "squares": lambda m: torch.linalg.vector_norm(m.rows, dim=1).square(),
    "centred": _centred,
    "zeros": lambda m: (m.rows == 0).sum(1).double(),
    "prod": lambda m: m.rows.prod(1),
    "nan_count": lambda m: torch.isnan(m.rows).sum(1).double(),
    "nonfinite_count": lambda m: m.nonfinite.sum(1).double(),
}
_SHARES: Final[dict[str, Callable[..., Any]]] = {
    "within_<low>_<high>": lambda rows, low, high: (rows >= low) & (rows <= high),
    "equals_<number>": lambda rows, number: rows == number,
}
"""Families of statistics for which the device counts matching elements."""
