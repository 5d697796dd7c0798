"""The device form of the statistics: few kernels over cache-sized chunks, one copy off the device, then float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels import order_statistics
from leadline.frameworks.torch.kernels.elements import CHUNK_ELEMENTS, Elements, elements
from leadline.frameworks.torch.kernels.order_statistics import PreviousValues
from leadline.statistics.definitions import find_statistic, primaries

Vector = npt.NDArray[np.float64]

_TINY: Final = 1e-30
"""Squares whose sum is below this may have vanished in float32."""
_SMALL_ELEMENTS: Final = 4096
"""Tensors up to this size are stacked with others of their size and computed together."""


class ChunkPlan:
    """How a list of tensors, known by their sizes, is cut into kernels' work.

    Small tensors of one size form one row each of a matrix; larger ones are cut into chunks. What the device
    gives is one number a chunk and primary; ``Combination`` makes a tensor's of them.
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
        """The tensors that have chunks, in the order of their chunks."""
        self.starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.intp) if counts else np.zeros(0, np.intp)
        self.lengths = np.array(lengths, dtype=np.float64)
        """Elements of each chunk."""


def device_statistics(
    tensors: Sequence[torch.Tensor], statistics: frozenset[str], recall: PreviousValues | None = None
) -> dict[str, Vector]:
    """Statistics of many tensors at once.

    Args:
        tensors: Readable ones (``elements.why_unreadable``), on one device.
        statistics: Names of statistics that are numbers (no vectors, not ``update_ratio``).
        recall: The tensors' names, for what is compared with the previous capture; None: it is absent.
    Shape:
        Each result: ``(len(tensors),)``.
    Not a number:
        As the definitions say: where a reduction is not finite, or may have lost a tiny value, the tensor is
        read again element by element.
    """
    reduced, others = _split(statistics)
    found = _reductions(tensors, reduced) if reduced else {}
    if others:
        numbers, finish = order_statistics.begin(tensors, others, recall)
        rows = finish(numbers.cpu().numpy()).reshape(len(others), len(tensors))
        found.update(zip(others, rows, strict=True))
    return found


@lru_cache(maxsize=256)
def _split(statistics: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The statistics that are sums, counts and extremes, and the others."""
    others = tuple(sorted(name for name in statistics if find_statistic(name).source in order_statistics.SOURCES))
    return statistics - set(others), others


def _reductions(tensors: Sequence[torch.Tensor], statistics: frozenset[str]) -> dict[str, Vector]:
    parts = [elements(tensor) for tensor in tensors]
    wanted = primaries(statistics)
    reduced = _reduce([part.flat for part in parts], wanted)
    _add_implicit_zeros(parts, reduced)
    _repair(parts, reduced, wanted)
    sizes = np.array([part.size for part in parts], dtype=np.float64)
    return {name: _derive(name, reduced, sizes) for name in statistics}


def _reduce(flats: Sequence[torch.Tensor], wanted: frozenset[str]) -> dict[str, Vector]:
    """Every primary, and the sum as the proof that all elements are finite."""
    plan = _plan(tuple(flat.numel() for flat in flats))
    kernels = _Kernels(wanted)
    for stack in plan.stacks:
        kernels.rows(torch.stack([flats[index] for index in stack]) if len(stack) > 1 else flats[stack[0]][None])
    for index in plan.cut:
        flat = flats[index]
        for chunk in (flat,) if flat.numel() <= CHUNK_ELEMENTS else flat.split(CHUNK_ELEMENTS):
            kernels.chunk(chunk)
    if not kernels.found:  # every tensor is empty
        return {name: np.full(len(flats), np.nan) for name in (*_KERNELS, *wanted - _COUNTS)}
    return _combine(plan, kernels.results(), len(flats))


def _plan(sizes: tuple[int, ...]) -> ChunkPlan:
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
"""Kernels whose results hold as they are, finite or not."""


class _Kernels:
    """Runs the kernels that the wanted primaries need, and keeps their results on the device."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._extremes = bool(wanted & {"min", "max"})
        self._l1 = "l1" in wanted
        self._l2 = "l2" in wanted
        self._squares = "std" in wanted
        self._zeros = "zero_ratio" in wanted
        self._abs_min = "abs_min" in wanted
        self._prod = "prod" in wanted
        self._bands = [_Band(each) for each in sorted(wanted) if _is_band(each)]
        self.found: dict[str, list[torch.Tensor]] = {}
        self._scratch: dict[tuple[torch.dtype, int], torch.Tensor] = {}

    def chunk(self, flat: torch.Tensor) -> None:
        """One chunk: the kernels follow each other while it is in the cache."""
        found = self.found
        total = flat.sum()
        _keep(found, "sum", total)
        if self._extremes:
            low, high = torch.aminmax(flat)
            _keep(found, "min", low)
            _keep(found, "max", high)
        if self._l2:
            _keep(found, "squares", torch.dot(flat, flat))
        if self._zeros:
            # as ones and zeros into warm memory, then a sum, takes a third of the time of counting
            _keep(found, "zeros", torch.eq(flat, 0, out=self._room(flat)).sum())
        if self._prod:
            _keep(found, "prod", flat.prod(dtype=torch.float64))
        for band in self._bands:
            _keep(found, band.name, band.count(flat, self._room(flat), self._room(flat, 1)))
        if self._l1 or self._squares or self._abs_min:
            scratch = self._room(flat)
            if self._l1 or self._abs_min:
                # abs into warm memory, then a sum, takes a third of the time of a norm of order one
                moduli = torch.abs(flat, out=scratch)
                if self._l1:
                    _keep(found, "l1", moduli.sum())
                if self._abs_min:
                    _keep(found, "abs_min", moduli.amin())
            if self._squares:
                torch.sub(flat, total / flat.numel(), out=scratch)
                _keep(found, "centred", torch.dot(scratch, scratch))

    def rows(self, matrix: torch.Tensor) -> None:
        """Several small tensors of one size, a row each."""
        found = self.found
        total = matrix.sum(1)
        _keep(found, "sum", total)
        if self._extremes:
            low, high = torch.aminmax(matrix, dim=1)
            _keep(found, "min", low)
            _keep(found, "max", high)
        if self._l2:
            _keep(found, "squares", (matrix * matrix).sum(1))
        if self._zeros:
            _keep(found, "zeros", (matrix == 0).sum(1))
        if self._l1:
            _keep(found, "l1", matrix.abs().sum(1))
        if self._abs_min:
            _keep(found, "abs_min", matrix.abs().amin(1))
        if self._prod:
            _keep(found, "prod", matrix.prod(1, dtype=torch.float64))
        for band in self._bands:
            _keep(found, band.name, band.holds(matrix).sum(1))
        if self._squares:
            centred = matrix - (total / matrix.shape[1])[:, None]
            _keep(found, "centred", (centred * centred).sum(1))

    def results(self) -> dict[str, Vector]:
        """One number a chunk and kernel, off the device in one copy."""
        columns = [torch.cat([part.reshape(-1).double() for part in _joined(parts)]) for parts in self.found.values()]
        matrix = torch.stack(columns).cpu().numpy()
        return dict(zip(self.found, matrix, strict=True))

    def _room(self, flat: torch.Tensor, ordinal: int = 0) -> torch.Tensor:
        key = (flat.dtype, ordinal)
        room = self._scratch.get(key)
        if room is None:
            room = self._scratch[key] = torch.empty(CHUNK_ELEMENTS, dtype=flat.dtype, device=flat.device)
        return room[: flat.numel()]


class _Band:
    """The elements that ``within_<low>_<high>`` or ``equals_<number>`` counts."""

    def __init__(self, name: str) -> None:
        self.name = name
        arguments = find_statistic(name).arguments
        self._low, self._high = arguments[0], arguments[-1]

    def holds(self, elements: torch.Tensor) -> torch.Tensor:
        low, high = self._bounds(elements.dtype)
        return (elements >= low) & (elements <= high)

    def count(self, flat: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """How many of a chunk's elements it holds; the rooms are of the chunk's size and type."""
        low, high = self._bounds(flat.dtype)
        return torch.dot(torch.ge(flat, low, out=one), torch.le(flat, high, out=other))

    def _bounds(self, dtype: torch.dtype) -> tuple[float, float]:
        """A float32 lies in the band if it lies between those of its like that do."""
        if dtype is torch.float32:
            return _upward(self._low), -_upward(-self._high)
        return self._low, self._high

    def share_of_zeros(self) -> float:
        return float(self._low <= 0 <= self._high)


def _is_band(name: str) -> bool:
    return name.startswith(("within_", "equals_"))


def _upward(number: float) -> float:
    """The smallest float32 that is not below a number."""
    with np.errstate(over="ignore"):
        near = np.float32(number)
    return float(near if float(near) >= number else np.nextafter(near, np.float32(np.inf)))


def _keep(found: dict[str, list[torch.Tensor]], name: str, value: torch.Tensor) -> None:
    found.setdefault(name, []).append(value)


def _joined(parts: list[torch.Tensor]) -> list[torch.Tensor]:
    """Neighbouring single numbers of one type stacked, so that there are few parts."""
    joined: list[torch.Tensor] = []
    run: list[torch.Tensor] = []
    for part in parts:
        if run and (part.dim() or part.dtype != run[0].dtype):
            joined.append(torch.stack(run))
            run = []
        if part.dim():
            joined.append(part)
        else:
            run.append(part)
    return [*joined, torch.stack(run)] if run else joined


_TOGETHER: Final[dict[str, Any]] = {
    "min": np.minimum.reduceat,
    "max": np.maximum.reduceat,
    "abs_min": np.minimum.reduceat,
    "prod": np.multiply.reduceat,
}


def _combine(plan: ChunkPlan, found: dict[str, Vector], count: int) -> dict[str, Vector]:
    """From chunks to tensors, in float64; a tensor without elements has none of them (NaN)."""

    def spread(values: Vector) -> Vector:
        whole = np.full(count, np.nan)
        whole[plan.owners] = values
        return whole

    with np.errstate(all="ignore"):
        reduced = {
            name: spread(_TOGETHER.get(name, np.add.reduceat)(values, plan.starts)) for name, values in found.items()
        }
        if "centred" in found:
            # Chan, Golub, LeVeque: the squares about the whole mean, from those about each chunk's
            sizes = np.add.reduceat(plan.lengths, plan.starts)
            means = np.add.reduceat(found["sum"], plan.starts) / sizes
            off = found["sum"] / plan.lengths - np.repeat(means, np.diff([*plan.starts, len(plan.lengths)]))
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
            if _is_band(name):
                reduced[name][index] += part.implicit_zeros * _Band(name).share_of_zeros()


def _repair(parts: Sequence[Elements], reduced: dict[str, Vector], wanted: frozenset[str]) -> None:
    """Read again, element by element and in float64, the tensors whose reductions are not to be trusted."""
    counts: dict[str, Vector] = {name: np.zeros(len(parts)) for name in sorted(_COUNTS & wanted)}
    with np.errstate(all="ignore"):
        doubtful = ~np.isfinite(np.sum([each for name, each in reduced.items() if name not in _EXACT], axis=0))
        if "squares" in reduced:
            doubtful |= (reduced["squares"] < _TINY) & ~_is_all_zero(reduced)
        if "centred" in reduced:
            doubtful |= (reduced["centred"] < _TINY) & ~_is_constant(reduced)
    for index in map(int, np.flatnonzero(doubtful)):
        if parts[index].flat.numel():
            _read_again(parts[index], index, reduced, counts)
    reduced.update(counts)


def _is_all_zero(reduced: dict[str, Vector]) -> Any:
    if "l1" in reduced:
        return reduced["l1"] == 0
    return (reduced["min"] == 0) & (reduced["max"] == 0) if "min" in reduced else np.False_


def _is_constant(reduced: dict[str, Vector]) -> Any:
    return reduced["min"] == reduced["max"] if "min" in reduced else np.False_


def _read_again(part: Elements, index: int, reduced: dict[str, Vector], counts: dict[str, Vector]) -> None:
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
