"""Tensors that are sharded over the workers of a run: shards make up the whole tensor, and their statistics combine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.reader.tensors import StoredTensor
from leadline.records.series import Shard, TensorInfo
from leadline.statistics import arrays, histograms
from leadline.statistics.definitions import find_statistic
from leadline.statistics.primaries import merge_statistic

if TYPE_CHECKING:
    import numpy.typing as npt

_HISTOGRAMS: Final = ("histogram", "histogram_exact")
_OF_ELEMENTS: Final = ("elements", "sample", "order", "batch")
"""The sources of statistics that one array suffices for."""


@dataclass(frozen=True, slots=True)
class WholeTensor:
    """A sharded tensor at one step. Workers that have the same shard are replicas: one of them counts.

    Attributes:
        shape: The shape of the whole tensor.
        statistics: The statistics that were captured of each shard.
        stored: The shards that were stored as raw tensors.
        arrays: The array statistics that were captured of each shard, by name.
    """

    shape: tuple[int, ...]
    statistics: Mapping[Shard, Mapping[str, float]]
    stored: Mapping[Shard, StoredTensor]
    arrays: Mapping[str, Mapping[Shard, StoredTensor]]

    def value(self) -> npt.NDArray[Any] | None:
        """Return the elements, ``(*shape,)``; None if a shard was not stored.

        Raises:
            DamagedRunError: A shard cannot be read.
        """
        if not self._is_complete(self.stored):
            return None
        parts = {shard: tensor.load() for shard, tensor in self.stored.items()}
        whole = np.empty(self.shape, next(iter(parts.values())).dtype)
        for shard, values in parts.items():
            whole[shard.slices] = values
        return whole

    def statistic(self, name: str) -> float | None:
        """Return a statistic, combined from those of the shards; None if it was not captured or does not combine.

        Statistics that are derived from primaries merge exactly, up to rounding (``primaries.merge_statistic``).
        Others are computed where all shards were stored as raw tensors. Where they were not, percentiles are those of
        the merged distributions of the shards, and ``statistic_range`` returns their bounds.

        Raises:
            DamagedRunError: A shard cannot be read.
        """
        shards = [shard for shard, captured in self.statistics.items() if name in captured and shard.size]
        parts = [self.statistics[shard] for shard in shards]
        sizes = [shard.size for shard in shards]
        found = merge_statistic(name, sizes, parts) if self._is_complete(shards) else None
        found = self._computed(name) if found is None else found
        rank = _rank(name)
        if found is not None or rank is None or not self._is_complete(shards):
            return found
        low, high = self.statistic_range(name)
        return min(max(_merged_percentile(rank, sizes, parts), low), high)

    def array(self, name: str) -> npt.NDArray[np.float64] | None:
        """Return an array statistic; None if it was not captured of all shards or does not combine.

        Where all shards were stored as raw tensors, it is computed of the whole. Histograms of shards are merged: each
        of their bins is taken to be filled evenly, and the counts of samples are scaled up.

        Raises:
            DamagedRunError: A shard cannot be read.
        """
        if name != "confusion" and (value := self.value()) is not None:
            return arrays.compute_vector(name, value)
        captured = {shard: array for shard, array in self.arrays.get(name, {}).items() if shard.size}
        if name not in _HISTOGRAMS or not self._is_complete(captured):
            return None
        finite = [shard.size - self.statistics[shard].get("nonfinite_count", 0.0) for shard in captured]
        return histograms.merged([array.load() for array in captured.values()], finite)

    def statistic_range(self, name: str) -> tuple[float, float]:
        """Return the smallest and largest value that a statistic of the whole can have.

        They differ for a percentile that is merged from those of the shards: it lies between the smallest and the
        largest of them, as far as these are exact. Both are NaN if the statistic does not combine.

        Raises:
            DamagedRunError: A shard cannot be read.
        """
        values = [captured[name] for shard, captured in self.statistics.items() if name in captured and shard.size]
        if _rank(name) is None or not values or self._computed(name) is not None:
            value = self.statistic(name)
            return (math.nan, math.nan) if value is None else (value, value)
        return min(values), max(values)

    def _computed(self, name: str) -> float | None:
        definition = find_statistic(name)
        value = None if definition.is_vector or definition.source not in _OF_ELEMENTS else self.value()
        return None if value is None else arrays.compute(name, value)

    def _is_complete(self, shards: Mapping[Shard, object] | Sequence[Shard]) -> bool:
        """Return whether shards, which never overlap, have all elements."""
        return bool(shards) and sum(shard.size for shard in shards) == math.prod(self.shape)


Row = tuple[str, TensorInfo, Mapping[str, int], "npt.NDArray[np.float64]"]
"""What a worker captured of a tensor: the worker, the tensor, the columns by statistic, and the values of the row."""


def whole_tensor(
    rows: Iterable[Row], stored: Iterable[StoredTensor], arrays: Iterable[tuple[str, StoredTensor]] = ()
) -> WholeTensor | None:
    """Return a tensor at one step; None: it is not sharded there.

    Args:
        rows: What was captured at the step.
        stored: What was stored at the step.
        arrays: The array statistics that were captured at the step, with their names.
    """
    shape: tuple[int, ...] = ()
    statistics: dict[Shard, dict[str, float]] = {}
    shards: dict[str, Shard] = {}
    for worker, info, columns, values in rows:
        if info.shard is not None:
            shape, shards[worker] = info.shape, info.shard
            captured = {statistic: float(values[column]) for statistic, column in columns.items()}
            statistics.setdefault(info.shard, {}).update(captured)
    parts = {shards[tensor.worker]: tensor for tensor in stored if tensor.worker in shards}
    by_name: dict[str, dict[Shard, StoredTensor]] = {}
    for name, array in arrays:
        if array.worker in shards:
            by_name.setdefault(name, {})[shards[array.worker]] = array
    return WholeTensor(shape, statistics, parts, by_name) if shards else None


def _rank(name: str) -> float | None:
    """Return the rank of a percentile from 0 to 1; None: it is another statistic."""
    if name in ("median", "median_exact"):
        return 0.5
    statistic = find_statistic(name)
    return statistic.arguments[0] / 100 if statistic.family.startswith("p<percent>") else None


def _merged_percentile(rank: float, counts: Sequence[int], captured: Sequence[Mapping[str, float]]) -> float:
    """Return a percentile of the union of shards.

    The distribution of a shard rises linearly between its minimum, the percentiles that were captured, and its maximum.
    """
    sizes, known = np.array(counts, np.float64), [_known_percentiles(part) for part in captured]
    points = np.unique(np.concatenate([values for _, values in known]))
    shares = [np.interp(points, values, ranks, left=0.0, right=1.0) for ranks, values in known]
    return float(np.interp(rank, sizes @ np.array(shares) / sizes.sum(), points))


def _known_percentiles(part: Mapping[str, float]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the ranks and values of the percentiles that were captured of a shard, ascending."""
    ends = {"min": 0.0, "max": 1.0}
    ranks = {name: ends[name] if name in ends else _rank(name) for name, value in part.items() if math.isfinite(value)}
    found = sorted((rank, part[name]) for name, rank in ranks.items() if rank is not None)
    # percentiles of a sample may lie beyond exact extrema by rounding
    return np.array([rank for rank, _ in found]), np.maximum.accumulate([value for _, value in found])
