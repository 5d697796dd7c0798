"""Device implementation of the statistics: few kernels over cache-sized chunks, one copy to the host, then float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels import order_statistics
from leadline.frameworks.torch.kernels.chunk_kernels import Band, ChunkKernels, is_band
from leadline.frameworks.torch.kernels.elements import CHUNK_ELEMENTS, Elements, elements
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.statistics.definitions import find_statistic, primaries

Vector = npt.NDArray[np.float64]

_UNDERFLOW: Final = 1e-30
"""A sum of squares below this may have underflowed in float32."""
_SMALL_ELEMENTS: Final = 4096
"""Tensors up to this size are stacked with others of the same size and computed together."""


class ChunkPlan:
    """Partition of a list of tensors, given by their sizes, into work for the kernels.

    Small tensors of one size form the rows of a matrix; larger ones are cut into chunks. The device computes one
    number per chunk and primary, which ``_combine`` merges into one per tensor.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        by_size: dict[int, list[int]] = {}
        for index, size in enumerate(sizes):
            if 0 < size <= _SMALL_ELEMENTS:
                by_size.setdefault(size, []).append(index)
        self.stacks = list(by_size.values())
        stacked = {index for stack in self.stacks for index in stack}
        self.cut = [index for index, size in enumerate(sizes) if size and index not in stacked]
        owners = [index for stack in self.stacks for index in stack]
        counts = [1] * len(owners)
        lengths: list[int] = [sizes[index] for index in owners]
        for index in self.cut:
            whole, rest = divmod(sizes[index], CHUNK_ELEMENTS)
            parts = [CHUNK_ELEMENTS] * whole + ([rest] if rest else [])
            owners.append(index)
            counts.append(len(parts))
            lengths += parts
        self.owners = np.array(owners, dtype=np.intp)
        """Tensors that have chunks, in the order of their chunks."""
        self.starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.intp) if counts else np.zeros(0, np.intp)
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
    parts = [elements(tensor) for tensor in tensors]
    wanted = primaries(statistics)
    reduced = _reduce([part.flat for part in parts], wanted)
    _add_implicit_zeros(parts, reduced)
    _recompute_doubtful(parts, reduced, wanted)
    sizes = np.array([part.size for part in parts], dtype=np.float64)
    return {name: _derive(name, reduced, sizes) for name in statistics}


def _reduce(flats: Sequence[torch.Tensor], wanted: frozenset[str]) -> dict[str, Vector]:
    """Reduce the tensors to every primary, and to the sum, which proves that all elements are finite."""
    plan = _plan_of(tuple(flat.numel() for flat in flats))
    kernels = ChunkKernels(wanted)
    for stack in plan.stacks:
        kernels.rows(torch.stack([flats[index] for index in stack]) if len(stack) > 1 else flats[stack[0]][None])
    for index in plan.cut:
        flat = flats[index]
        for chunk in (flat,) if flat.numel() <= CHUNK_ELEMENTS else flat.split(CHUNK_ELEMENTS):
            kernels.chunk(chunk)
    if not kernels.partials:  # every tensor is empty
        return {name: np.full(len(flats), np.nan) for name in (*_KERNELS, *wanted - _COUNTS)}
    return _combine(plan, kernels.results(), len(flats))


def _plan_of(sizes: tuple[int, ...]) -> ChunkPlan:
    plan = _PLANS.get(sizes)
    if plan is None:
        if len(_PLANS) > 64:
            _PLANS.clear()
        plan = _PLANS[sizes] = ChunkPlan(sizes)
    return plan


_PLANS: Final[dict[tuple[int, ...], ChunkPlan]] = {}


_COUNTS: Final = frozenset({"nan_count", "nonfinite_count"})
_KERNELS: Final = ("sum", "min", "max", "squares", "zeros", "l1", "centred")
_EXACT: Final = frozenset({"prod"})
"""Kernels whose results are exact, finite or not."""


_REDUCERS: Final[dict[str, Any]] = {
    "min": np.minimum.reduceat,
    "max": np.maximum.reduceat,
    "abs_min": np.minimum.reduceat,
    "prod": np.multiply.reduceat,
}


def _combine(plan: ChunkPlan, partials: dict[str, Vector], count: int) -> dict[str, Vector]:
    """Combine chunks into one number per tensor, in float64; NaN for tensors without elements."""

    def spread(values: Vector) -> Vector:
        whole = np.full(count, np.nan)
        whole[plan.owners] = values
        return whole

    with np.errstate(all="ignore"):
        reduced = {
            name: spread(_REDUCERS.get(name, np.add.reduceat)(values, plan.starts)) for name, values in partials.items()
        }
        if "centred" in partials:
            # Correct the centred squares from chunk means to the overall mean (Chan, Golub, LeVeque).
            sizes = np.add.reduceat(plan.lengths, plan.starts)
            means = np.add.reduceat(partials["sum"], plan.starts) / sizes
            off = partials["sum"] / plan.lengths - np.repeat(means, np.diff([*plan.starts, len(plan.lengths)]))
            between = np.add.reduceat(plan.lengths * off * off, plan.starts)
            reduced["centred"] += spread(between)
    return reduced


def _add_implicit_zeros(parts: Sequence[Elements], reduced: dict[str, Vector]) -> None:
    for index, part in enumerate(parts):
        if not part.implicit_zeros:
            continue
        stored = part.flat.numel()
        if not stored:
            for values in reduced.values():
                values[index] = 0.0
        if "centred" in reduced and stored:
            mean = reduced["sum"][index] / stored
            reduced["centred"][index] += mean * mean * stored * part.implicit_zeros / part.size
        for name, rule in (("min", min), ("max", max), ("abs_min", min)):
            if name in reduced:
                reduced[name][index] = rule(reduced[name][index], 0.0)
        if "zeros" in reduced:
            reduced["zeros"][index] += part.implicit_zeros
        if "prod" in reduced:
            reduced["prod"][index] *= 0.0
        for name in reduced:
            if is_band(name):
                reduced[name][index] += part.implicit_zeros * Band(name).share_of_zeros()


def _recompute_doubtful(parts: Sequence[Elements], reduced: dict[str, Vector], wanted: frozenset[str]) -> None:
    """Recompute in float64, element by element, the tensors whose reductions are not reliable."""
    counts: dict[str, Vector] = {name: np.zeros(len(parts)) for name in sorted(_COUNTS & wanted)}
    with np.errstate(all="ignore"):
        doubtful = ~np.isfinite(np.sum([values for name, values in reduced.items() if name not in _EXACT], axis=0))
        if "squares" in reduced:
            doubtful |= (reduced["squares"] < _UNDERFLOW) & ~_is_all_zero(reduced)
        if "centred" in reduced:
            doubtful |= (reduced["centred"] < _UNDERFLOW) & ~_is_constant(reduced)
    for index in map(int, np.flatnonzero(doubtful)):
        if parts[index].flat.numel():
            _recompute_exactly(parts[index], index, reduced, counts)
    reduced.update(counts)


def _is_all_zero(reduced: dict[str, Vector]) -> Any:
    if "l1" in reduced:
        return reduced["l1"] == 0
    return (reduced["min"] == 0) & (reduced["max"] == 0) if "min" in reduced else np.False_


def _is_constant(reduced: dict[str, Vector]) -> Any:
    return reduced["min"] == reduced["max"] if "min" in reduced else np.False_


def _recompute_exactly(part: Elements, index: int, reduced: dict[str, Vector], counts: dict[str, Vector]) -> None:
    flat = part.flat.double()
    finite = torch.isfinite(flat)
    bad = flat.numel() - int(finite.sum())
    if "nonfinite_count" in counts:
        counts["nonfinite_count"][index] = bad
    if "nan_count" in counts:
        counts["nan_count"][index] = int(torch.isnan(flat).sum()) if bad else 0
    kept = flat[finite] if bad and bad < flat.numel() else flat
    if part.implicit_zeros and bad == flat.numel():
        kept = flat.new_zeros(1)
    exact: dict[str, Callable[[], float]] = {
        "sum": lambda: float(flat.sum()),
        "l1": lambda: float(flat.abs().sum()),
        "squares": lambda: float(torch.dot(flat, flat)),
        "min": lambda: min([float(kept.min())] + [0.0] * bool(part.implicit_zeros)),
        "max": lambda: max([float(kept.max())] + [0.0] * bool(part.implicit_zeros)),
        "centred": lambda: _centred(flat, part),
        "abs_min": lambda: min([float(kept.abs().min())] + [0.0] * bool(part.implicit_zeros)),
    }
    for name, read in exact.items():
        if name in reduced:
            reduced[name][index] = read()


def _centred(flat: torch.Tensor, part: Elements) -> float:
    mean = float(flat.sum()) / part.size
    off = flat - mean
    return float(torch.dot(off, off)) + part.implicit_zeros * mean * mean


def _derive(name: str, reduced: dict[str, Vector], sizes: Vector) -> Vector:
    with np.errstate(all="ignore"):
        return _DERIVED[name](reduced, sizes) if name in _DERIVED else reduced[name] / sizes


_DERIVED: Final[dict[str, Callable[[dict[str, Vector], Vector], Vector]]] = {
    "min": lambda r, n: r["min"],
    "max": lambda r, n: r["max"],
    "sum": lambda r, n: r["sum"],
    "mean": lambda r, n: r["sum"] / n,
    "l1": lambda r, n: r["l1"],
    "l2": lambda r, n: np.sqrt(r["squares"]),
    "abs_mean": lambda r, n: r["l1"] / n,
    "abs_min": lambda r, n: r["abs_min"],
    "prod": lambda r, n: r["prod"],
    "abs_max": lambda r, n: np.maximum(np.abs(r["min"]), np.abs(r["max"])),
    "rms": lambda r, n: np.sqrt(r["squares"] / n),
    "std": lambda r, n: np.sqrt(r["centred"] / n),
    "variance": lambda r, n: r["centred"] / n,
    "zero_ratio": lambda r, n: r["zeros"] / n,
    "nan_count": lambda r, n: r["nan_count"],
    "nonfinite_count": lambda r, n: r["nonfinite_count"],
}
