"""Statistics of many tensors on one device: small ones in one pass, large ones by few kernels over chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels import order_statistics
from leadline.frameworks.torch.kernels.chunk_kernels import Band, ChunkKernels, is_band
from leadline.frameworks.torch.kernels.elements import CHUNK_ELEMENTS, elements
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.frameworks.torch.kernels.segments import reduce_segments
from leadline.frameworks.torch.kernels.stacks import are_dense, stack_plan
from leadline.statistics.definitions import find_statistic, primaries
from leadline.statistics.primaries import PRIMARIES, derive, merge

Vector = npt.NDArray[np.float64]

_UNDERFLOW: Final = 1e-30
"""A sum of squares below this may have underflowed in float32."""


class ChunkPlan:
    """Partition of a list of tensors, given by their sizes, into cache-sized chunks.

    The device computes one number per chunk and primary, which ``primaries.merge`` merges into one per tensor.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        counts: list[int] = []
        lengths: list[int] = []
        for size in sizes:
            whole, rest = divmod(size, CHUNK_ELEMENTS)
            parts = [CHUNK_ELEMENTS] * whole + ([rest] if rest else [])
            counts.append(len(parts))
            lengths += parts
        self.starts = np.cumsum(counts, dtype=np.intp) - np.array(counts, dtype=np.intp)
        """The first chunk of each tensor."""
        self.lengths = np.array(lengths, dtype=np.float64)
        """Number of elements in each chunk."""


def device_statistics(
    tensors: Sequence[torch.Tensor], statistics: frozenset[str], previous: PreviousValues | None = None
) -> dict[str, Vector]:
    """Compute statistics of many tensors at once.

    Args:
        tensors: Readable tensors (``elements.unreadable_reason``) on one device.
        statistics: Names of scalar statistics (not ``update_ratio``).
        previous: Names and previous values, for change statistics; None: those are NaN.
    Shape:
        Every result: ``(len(tensors),)``.
    Not a number:
        As defined in ``statistics.definitions``: if a reduction is not finite, or may have lost a tiny value, the
        tensor is read again element by element.
    """
    reduced, others = _split(statistics)
    results = _reductions(tensors, reduced) if reduced else {}
    if others:
        numbers, finish = order_statistics.begin(tensors, others, previous)
        rows = finish(numbers.cpu().numpy()).reshape(len(others), len(tensors))
        results.update(zip(others, rows, strict=True))
    return results


@lru_cache(maxsize=256)
def _split(statistics: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Split the statistics into sums, counts and extremes, and all others."""
    others = tuple(sorted(name for name in statistics if find_statistic(name).source in order_statistics.SOURCES))
    return statistics - set(others), others


def _reductions(tensors: Sequence[torch.Tensor], statistics: frozenset[str]) -> dict[str, Vector]:
    wanted = primaries(statistics)
    stored, implicit_zeros = _stored(tensors)
    plan = stack_plan(stored)
    reduced = reduce_segments(plan, stored, wanted)
    if plan.others:
        of_others = _reduce_chunks([elements(stored[index]).flat for index in plan.others], wanted)
        for name, values in reduced.items():
            values[plan.others] = of_others[name]
    sizes = plan.sizes
    if implicit_zeros is not None:
        _add_implicit_zeros(reduced, sizes, implicit_zeros)
        sizes = sizes + implicit_zeros
    return dict(zip(statistics, derive(tuple(statistics), {"size": sizes, **reduced}), strict=True))


def _stored(tensors: Sequence[torch.Tensor]) -> tuple[Sequence[torch.Tensor], Vector | None]:
    """Return dense tensors with the stored elements, and the number of elements that each sparse one does not store.

    The second result is None if no tensor is sparse.
    """
    if are_dense(tensors):
        return tensors, None
    parts = [elements(tensor) if tensor.layout is torch.sparse_coo else None for tensor in tensors]
    stored = [tensor if part is None else part.flat for part, tensor in zip(parts, tensors, strict=True)]
    return stored, np.array([0 if part is None else part.implicit_zeros for part in parts], dtype=np.float64)


def _reduce_chunks(flats: Sequence[torch.Tensor], wanted: frozenset[str]) -> dict[str, Vector]:
    """Reduce flat tensors to every primary, to the sum, and to the number of non-finite elements."""
    plan = ChunkPlan([flat.numel() for flat in flats])
    kernels = ChunkKernels(wanted)
    for flat in flats:
        for chunk in (flat,) if flat.numel() <= CHUNK_ELEMENTS else flat.split(CHUNK_ELEMENTS):
            kernels.chunk(chunk)
    reduced = merge({"size": plan.lengths, **kernels.results()}, plan.starts)
    del reduced["size"]
    _recompute_doubtful(flats, reduced, wanted)
    return reduced


_COUNTS: Final = frozenset({"nan_count", "nonfinite_count"})
_EXACT: Final = frozenset({"prod"})
"""Kernels whose results are exact, finite or not."""


def _add_implicit_zeros(reduced: dict[str, Vector], stored: Vector, zeros: Vector) -> None:
    """Add the zeros that sparse tensors do not store.

    Args:
        stored, zeros: Number of stored elements and of zeros that are not stored, of each tensor.
    """
    some, none_stored = zeros > 0, (zeros > 0) & (stored == 0)
    for values in reduced.values():
        values[none_stored] = 0.0
    with np.errstate(all="ignore"):
        if "centred" in reduced:
            means = np.where(stored > 0, reduced["sum"] / stored, 0.0)
            reduced["centred"] += np.where(some, means * means * stored * zeros / (stored + zeros), 0.0)
        has_finite = reduced["nonfinite_count"] < stored
        for name in ("min", "max", "abs_min"):
            if name in reduced:
                with_zero = np.where(has_finite, PRIMARIES[name].merge(reduced[name], 0.0), 0.0)
                reduced[name] = np.where(some, with_zero, reduced[name])
        if "prod" in reduced:
            reduced["prod"][some] *= 0.0
    for name, values in reduced.items():
        if name == "zeros" or (is_band(name) and Band(name).has_zero):
            values += zeros


def _recompute_doubtful(flats: Sequence[torch.Tensor], reduced: dict[str, Vector], wanted: frozenset[str]) -> None:
    """Recompute in float64, element by element, the tensors whose reductions are not reliable."""
    counts: dict[str, Vector] = {name: np.zeros(len(flats)) for name in _COUNTS & wanted | {"nonfinite_count"}}
    with np.errstate(all="ignore"):
        doubtful = ~np.isfinite(np.sum([values for name, values in reduced.items() if name not in _EXACT], axis=0))
        if "squares" in reduced:
            doubtful |= (reduced["squares"] < _UNDERFLOW) & ~_is_all_zero(reduced)
        if "centred" in reduced:
            doubtful |= (reduced["centred"] < _UNDERFLOW) & ~_is_constant(reduced)
    for index in map(int, np.flatnonzero(doubtful)):
        _recompute_exactly(flats[index], index, reduced, counts)
    reduced.update(counts)


def _is_all_zero(reduced: dict[str, Vector]) -> Any:
    if "l1" in reduced:
        return reduced["l1"] == 0
    return (reduced["min"] == 0) & (reduced["max"] == 0) if "min" in reduced else np.False_


def _is_constant(reduced: dict[str, Vector]) -> Any:
    return reduced["min"] == reduced["max"] if "min" in reduced else np.False_


def _recompute_exactly(stored: torch.Tensor, index: int, reduced: dict[str, Vector], counts: dict[str, Vector]) -> None:
    flat = stored.double()
    finite = torch.isfinite(flat)
    bad = flat.numel() - int(finite.sum())
    counts["nonfinite_count"][index] = bad
    if "nan_count" in counts:
        counts["nan_count"][index] = int(torch.isnan(flat).sum()) if bad else 0
    kept = flat[finite] if bad and bad < flat.numel() else flat
    exact: dict[str, Callable[[], torch.Tensor]] = {
        "sum": flat.sum,
        "l1": lambda: flat.abs().sum(),
        "squares": lambda: torch.dot(flat, flat),
        "min": kept.min,
        "max": kept.max,
        "centred": lambda: (flat - flat.mean()).square().sum(),
        "abs_min": lambda: kept.abs().min(),
    }
    for name, read in exact.items():
        if name in reduced:
            reduced[name][index] = float(read())
