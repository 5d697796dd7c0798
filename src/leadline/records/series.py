"""What one captured step leaves behind in a series, and what a series says of its tensors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as a series names it."""

    name: str
    collections: tuple[str, ...]
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    """The framework's name of the type, without the framework: ``float32``, ``bfloat16`` …"""


@dataclass(frozen=True, slots=True)
class SeriesLayout:
    """The columns of a series segment: which statistic of which tensor stands where in a row's values."""

    tensors: tuple[TensorInfo, ...]
    columns: tuple[tuple[int, str], ...]
    """For each value of a row: index into ``tensors``, name of the statistic."""


@dataclass(frozen=True, slots=True)
class StepStamp:
    """Which step something belongs to."""

    step: int
    """The global step, over all modes."""
    mode: str
    mode_step: int
    time_ns: int
    """Wall clock, ns since the epoch."""
