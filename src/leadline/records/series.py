"""Layout and step stamps of series rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of a series."""

    name: str
    collections: tuple[str, ...]
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    """The framework's name of the data type, without a prefix: ``float32``, ``bfloat16`` …"""


def merged_infos(infos: Iterable[TensorInfo]) -> dict[str, TensorInfo]:
    """Return tensors by name, in the order of appearance, each with all collections recorded for it."""
    merged: dict[str, TensorInfo] = {}
    for info in infos:
        known = merged.setdefault(info.name, info)
        if known.collections != info.collections:
            both = dict.fromkeys((*known.collections, *info.collections))
            merged[info.name] = replace(known, collections=tuple(both))
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
