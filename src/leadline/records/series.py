"""Layout and step stamps of series rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Shard:
    """A block of a tensor that is sharded over workers."""

    offset: tuple[int, ...]
    """The index of its first element in the whole tensor."""
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Its place in the whole tensor."""
        return tuple(slice(start, start + length) for start, length in zip(self.offset, self.shape, strict=True))


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of a series."""

    name: str
    collections: tuple[str, ...]
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    """The framework's name of the data type, without a prefix: ``float32``, ``bfloat16`` …"""
    shard: Shard | None = None
    """The part of the tensor that the worker has; None: the whole, or it is not known which part."""


def merged_infos(infos: Iterable[TensorInfo]) -> dict[str, TensorInfo]:
    """Return tensors by name, in the order of appearance, each with all collections recorded for it.

    One that is sharded at some steps has a shard.
    """
    merged: dict[str, TensorInfo] = {}
    for info in infos:
        known = merged.setdefault(info.name, info)
        if known.collections != info.collections:
            both = dict.fromkeys((*known.collections, *info.collections))
            merged[info.name] = known = replace(known, collections=tuple(both))
        if known.shard is None and info.shard is not None:
            merged[info.name] = replace(known, shard=info.shard)
    return merged


@dataclass(frozen=True, slots=True)
class SeriesLayout:
    """The columns of a series segment: the statistic and tensor of each value of a row."""

    tensors: tuple[TensorInfo, ...]
    columns: tuple[tuple[int, str], ...]
    """For each value of a row: the index into ``tensors`` and the name of the statistic."""


class StepStamp(NamedTuple):
    """The step of a row or capture."""

    step: int
    """The global step, counted over all modes."""
    mode: str
    mode_step: int
    time_ns: int
    """Wall clock, ns since the epoch."""
