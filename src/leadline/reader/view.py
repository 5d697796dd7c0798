"""A rule's view of the stream: which columns it needs, and as much of the past as it looks back at."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from leadline.reader.window import (
    Earlier,
    TensorArray,
    TensorReading,
    TensorVector,
    Window,
    natural_sort_key,
    reading_order,
)
from leadline.records.needs import TensorNeed
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.statistics import arrays as forms
from leadline.statistics.definitions import is_vector
from leadline.store import layout

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats

_Key = tuple[str, str, str, str]
_Infos = dict[tuple[str, str], TensorInfo]
"""By worker and tensor: workers may hold differently shaped ones under a name."""


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """One row of a series."""

    worker: str
    layout: SeriesLayout
    mode_step: int
    time_ns: int
    values: Floats


@dataclass(slots=True)
class Point:
    """Everything that was captured at one step in one mode; complete before it is shown to anyone."""

    step: int
    mode: str
    rows: list[SeriesRow] = field(default_factory=list)
    arrays: list[TensorArray] = field(default_factory=list)
    is_thinned: bool = False
    is_skipped: bool = False
    _infos: _Infos | None = None

    @property
    def infos(self) -> _Infos:
        """What its rows say of their tensors."""
        if self._infos is None:
            self._infos = {(row.worker, info.name): info for row in self.rows for info in row.layout.tensors}
        return self._infos

    @property
    def time_ns(self) -> int:
        return max((row.time_ns for row in self.rows), default=0)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a layout that hold one statistic, in the order in which readings are given."""

    places: npt.NDArray[np.intp]
    tensors: tuple[tuple[int, TensorInfo], ...]
    """For each the tensor, with its place among those of the layout."""


@dataclass(frozen=True, slots=True)
class _Selection:
    """The columns of a layout that a rule needs, by statistic."""

    columns: dict[str, _Columns]
    kept: tuple[str, ...]
    """Statistics of which the past is kept."""


class View:
    """What one rule sees of the stream; points are shown to it in order, each once."""

    def __init__(self, needs: Iterable[TensorNeed]) -> None:
        self._needs = tuple(replace(each, statistics=tuple(each.statistics), modes=tuple(each.modes)) for each in needs)
        self._selections: dict[tuple[int, str, int], tuple[SeriesLayout, _Selection]] = {}
        self._ends = sorted(need.end for need in self._needs if need.end is not None)
        self._past: dict[_Key, deque[Earlier] | list[Earlier]] = {}
        self._spacing: dict[tuple[_Key, int], list[int]] = {}
        self._arrays: dict[tuple[str, str], list[TensorArray]] = {}
        self._point = Point(-1, "train")
        self._rows: list[tuple[SeriesRow, _Selection]] = []
        self._mode_step = 0
        self._vector_names = sorted({each for need in self._needs for each in need.statistics if is_vector(each)})
        self._is_global = any(need.modes == ("global",) for need in self._needs)
        self._modes: set[str] = set()
        histories = [need.history for need in self._needs]
        self._history = None if None in histories else max((each or 0 for each in histories), default=0)

    def show(self, point: Point) -> Window | None:
        """A window on a point; None where nothing that the rule needs was captured."""
        self._point = point
        self._mode_step = min((row.mode_step for row in point.rows), default=point.step)
        selected = ((row, self._select(row.layout)) for row in point.rows)
        self._rows = [(row, selection) for row, selection in selected if selection.columns]
        if not self._rows and not self.arrays() and not any(self._sources(each) for each in self._vector_names):
            return None
        self._modes.add(point.mode)
        return Window(
            point.step, point.mode, point.time_ns, source=self, is_thinned=point.is_thinned, is_skipped=point.is_skipped
        )

    def modes(self) -> frozenset[str]:
        return frozenset(self._modes)

    def keep(self) -> None:
        """Let the point that was shown become the past."""
        for array in self.arrays():
            self._arrays.setdefault((array.worker, array.tensor), []).append(array)
        if self._history == 0:
            return
        for statistic in {each for _, selection in self._rows for each in selection.kept}:
            for reading in self.readings(statistic, None):
                self._past_of(reading).append(Earlier(reading.mode_step, reading.step, reading.value))

    def readings(self, statistic: str, where: Callable[[Floats], Choices] | None) -> list[TensorReading]:
        held = [(row, selection.columns[statistic]) for row, selection in self._rows if statistic in selection.columns]
        found = [each for row, columns in held for each in self._readings_of(row, columns, statistic, where)]
        return found if len(held) < 2 else sorted(found, key=reading_order)

    def names(self) -> set[str]:
        """The tensors that the rule needs and that this point holds."""
        names = {array.tensor for array in self.arrays()}
        names.update(tensor for each in self._vector_names for _, tensor in self._sources(each))
        for _, selection in self._rows:
            names.update(info.name for columns in selection.columns.values() for _, info in columns.tensors)
        return names

    def earlier(self, reading: TensorReading) -> Sequence[Earlier]:
        return self._past_of(reading)

    def is_due(self, reading: TensorReading, spacing: int) -> bool:
        past = self._past_of(reading)
        first = past[0].mode_step if past else reading.mode_step
        state = self._spacing.setdefault((_key(reading), spacing), [0, first - 1])
        for each in past[state[0] :] if isinstance(past, list) else past:
            if each.mode_step - state[1] >= spacing:
                state[1] = each.mode_step
        state[0] = len(past)
        return reading.mode_step - state[1] >= spacing

    def arrays(self) -> list[TensorArray]:
        needs = [need for need in self._needs if need.raw and self._is_wanted(need)]
        if not needs or not self._point.arrays:
            return []
        infos = self._point.infos
        found = [
            array
            for array in self._point.arrays
            if layout.parse_vector_name(array.tensor) is None
            and any(need.selects(array.tensor, _collections(array.worker, array.tensor, infos)) for need in needs)
        ]
        return sorted(found, key=lambda each: (natural_sort_key(each.worker), natural_sort_key(each.tensor)))

    def vectors(self, statistic: str) -> list[TensorVector]:
        infos, point = self._point.infos, self._point
        found = []
        for (worker, tensor), array in self._sources(statistic).items():
            is_ready = array.tensor != tensor
            info = infos.get((worker, tensor))
            shape = info.shape if info else ()
            values = forms.tidy(statistic, array.load()) if is_ready else forms.compute_vector(statistic, array.load())
            found.append(
                TensorVector(
                    tensor,
                    _collections(worker, tensor, infos),
                    worker,
                    "global" if self._is_global else point.mode,
                    point.step if self._is_global else array.mode_step,
                    values,
                    point.step,
                    shape,
                )
            )
        return sorted(found, key=lambda each: (natural_sort_key(each.worker), natural_sort_key(each.tensor)))

    def _sources(self, statistic: str) -> dict[tuple[str, str], TensorArray]:
        """By worker and tensor: the vector as it was stored, else the tensor that it can be computed from."""
        needs = [need for need in self._needs if statistic in need.statistics and self._is_wanted(need)]
        if not needs or not self._point.arrays:
            return {}
        infos = self._point.infos
        found: dict[tuple[str, str], TensorArray] = {}
        for array in self._point.arrays:
            stored = layout.parse_vector_name(array.tensor)
            tensor = stored[0] if stored else array.tensor
            if stored is None and (statistic == "confusion" or (array.worker, tensor) in found):
                continue
            if stored is not None and stored[1] != statistic:
                continue
            if any(need.selects(tensor, _collections(array.worker, tensor, infos)) for need in needs):
                found[array.worker, tensor] = array
        return found

    def array_before(self, array: TensorArray, distance: int) -> TensorArray | None:
        for each in reversed(self._arrays.get((array.worker, array.tensor), ())):
            if each.mode_step <= array.mode_step - distance:
                return each
        return None

    def _readings_of(
        self, row: SeriesRow, columns: _Columns, statistic: str, where: Callable[[Floats], Choices] | None
    ) -> list[TensorReading]:
        values, tensors = row.values[columns.places], columns.tensors
        if where is not None:
            chosen = np.flatnonzero(where(values)).tolist()
            values, tensors = values[chosen], tuple(tensors[each] for each in chosen)
        worker, time_ns, step = row.worker, row.time_ns, self._point.step
        mode, mode_step = ("global", step) if self._is_global else (self._point.mode, row.mode_step)
        return [
            TensorReading(
                worker,
                info.name,
                info.collections,
                info.shape,
                statistic,
                value,
                step,
                mode,
                mode_step,
                time_ns,
                index,
                info.dtype,
            )
            for (index, info), value in zip(tensors, values.tolist(), strict=True)
        ]

    def _past_of(self, reading: TensorReading) -> deque[Earlier] | list[Earlier]:
        key = _key(reading)
        if key not in self._past:
            self._past[key] = [] if self._history is None else deque(maxlen=self._history)
        return self._past[key]

    def _select(self, layout: SeriesLayout) -> _Selection:
        key = (id(layout), self._point.mode, bisect_right(self._ends, self._mode_step))
        if key not in self._selections:
            self._selections[key] = (layout, self._make_selection(layout))
        return self._selections[key][1]

    def _make_selection(self, layout: SeriesLayout) -> _Selection:
        return _selection(_Same(layout), tuple(need for need in self._needs if self._is_wanted(need)))

    def _is_wanted(self, need: TensorNeed) -> bool:
        if need.end is not None and self._mode_step >= need.end:
            return False
        return not need.modes or self._is_global or self._point.mode in need.modes


class _Same:
    """A layout as a key: that very one, since to compare thousands of columns takes as long as to select among them."""

    def __init__(self, layout: SeriesLayout) -> None:
        self.layout = layout

    def __hash__(self) -> int:
        return id(self.layout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.layout is self.layout


@lru_cache(maxsize=512)
def _selection(same: _Same, needs: tuple[TensorNeed, ...]) -> _Selection:
    """What needs select of a layout; the next run of the same model asks the same again."""
    layout = same.layout
    wanted = {name for need in needs for name in need.statistics}
    selecting: dict[int, list[TensorNeed]] = {}
    chosen: dict[str, list[int]] = {}
    kept = set()
    for column, (index, statistic) in enumerate(layout.columns):
        if statistic not in wanted:
            continue
        if index not in selecting:
            info = layout.tensors[index]
            selecting[index] = [need for need in needs if need.selects(info.name, info.collections)]
        found = [need for need in selecting[index] if statistic in need.statistics]
        if found:
            chosen.setdefault(statistic, []).append(column)
        if any(need.history != 0 for need in found):
            kept.add(statistic)
    return _Selection({name: _in_order(layout, each) for name, each in chosen.items()}, tuple(sorted(kept)))


def _in_order(layout: SeriesLayout, columns: Iterable[int]) -> _Columns:
    """Columns of one statistic as ``reading_order`` has the readings of one worker."""

    def place(column: int) -> tuple[bool, int]:
        index = layout.columns[column][0]
        return "losses" not in layout.tensors[index].collections, index

    ordered = sorted(columns, key=place)
    tensors = ((layout.columns[each][0], layout.tensors[layout.columns[each][0]]) for each in ordered)
    return _Columns(np.asarray(ordered, dtype=np.intp), tuple(tensors))


def _collections(worker: str, name: str, infos: _Infos) -> tuple[str, ...]:
    info = infos.get((worker, name))
    return info.collections if info else guess_collections(name)


_OF_MODULE: Final = re.compile(r"(?:.*\.)?(.+_(?:input|output))_\d+$")


def guess_collections(name: str) -> tuple[str, ...]:
    """The collections of a tensor of which only the name is known."""
    if name.startswith("gradient/"):
        return ("gradients",)
    of_module = _OF_MODULE.match(name)
    if of_module:
        return ("layers", of_module[1])
    return ("biases",) if name.rpartition(".")[2] == "bias" else ("weights",)


def _key(reading: TensorReading) -> _Key:
    return reading.worker, reading.tensor, reading.statistic, reading.mode
