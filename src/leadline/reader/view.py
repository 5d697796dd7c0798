"""View of a run for one rule: the needed columns and the needed history."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from leadline.reader.point import Infos, Point, RowGroup
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
from leadline.statistics import arrays as array_statistics
from leadline.statistics.definitions import is_vector
from leadline.store import layout

if TYPE_CHECKING:
    from leadline.reader.window import Choices, Floats

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The columns of a layout that contain one statistic, in the order of the readings; one object for all rules."""

    indices: npt.NDArray[np.intp]
    tensors: tuple[tuple[int, TensorInfo], ...]
    """The tensor of each column, with its index in the layout."""
    losses: int
    """The number of columns that are losses; they come first."""


@dataclass(frozen=True, slots=True)
class _Selection:
    """The columns of a layout that a rule needs, by statistic."""

    columns: dict[str, _Columns]
    with_history: tuple[str, ...]
    """Statistics whose history is kept."""


class View:
    """The data that one rule sees; points are passed in order, each once."""

    def __init__(self, needs: Iterable[TensorNeed]) -> None:
        self._needs = tuple(replace(need, statistics=tuple(need.statistics), modes=tuple(need.modes)) for need in needs)
        self._selections: dict[tuple[int, str, int], tuple[SeriesLayout, _Selection]] = {}
        self._ends = sorted(need.end for need in self._needs if need.end is not None)
        self._past: dict[_Key, deque[Earlier] | list[Earlier]] = {}
        self._spacing: dict[tuple[_Key, int], list[int]] = {}
        self._arrays: dict[tuple[str, str], list[TensorArray]] = {}
        self._point = Point(-1, "train")
        self._groups: list[tuple[RowGroup, _Selection]] = []
        self._readings: dict[str, list[TensorReading]] = {}
        """Of the current point, by statistic."""
        self._training_step = self._begun = 0
        """The step of the mode, counted from where the facts of the training begin."""
        self._array_statistics = sorted(
            {statistic for need in self._needs for statistic in need.statistics if is_vector(statistic)}
        )
        self._is_global = any(need.modes == ("global",) for need in self._needs)
        self._modes: set[str] = set()
        histories = [need.history for need in self._needs]
        self._history = None if None in histories else max((history or 0 for history in histories), default=0)

    def select(self, point: Point) -> Window | None:
        """Return a window on a point; None if nothing that the rule needs was captured."""
        self._point = point
        self._training_step = point.first_step - self._begun
        self._groups = [
            (group, selection) for group in point.groups if (selection := self._select(group.layout)).columns
        ]
        if not self._groups and not self._selects_arrays():
            return None
        self._readings = {}
        self._modes.add(point.mode)
        return Window(
            point.train_step if point.train_step >= 0 else point.step,
            point.mode,
            point.time_ns,
            global_step=point.step,
            source=self,
            is_incomplete=point.is_incomplete,
            is_skipped=point.is_skipped,
            begun=max(self._begun - 1, 0),
        )

    def can_select(self, point: Point, *, is_settled: bool) -> bool:
        """Return whether any point with these layouts, in this mode, without arrays, has data that the rule needs.

        Args:
            is_settled: Whether what is needed in the first steps of a training only is not needed any more.
        """
        needs = tuple(need for need in self._needs if self._is_of(need, point.mode) and not (is_settled and need.end))
        return any(_selection(_LayoutKey(group.layout), needs).columns for group in point.groups)

    def _selects_arrays(self) -> bool:
        return bool(self._point.arrays) and (
            bool(self.arrays()) or any(self._sources(statistic) for statistic in self._array_statistics)
        )

    def begin_training(self, workers: Collection[str], train_step: int) -> None:
        """Forget the history of workers that begin another training with a train step.

        What ends after the first steps of a training is looked at again in those that follow this one: it is known to
        be another training when its first step has ended.
        """
        self._begun = train_step + 1
        self._past = {key: past for key, past in self._past.items() if key[0] not in workers}
        self._spacing = {at: spacing for at, spacing in self._spacing.items() if at[0][0] not in workers}
        self._arrays = {key: arrays for key, arrays in self._arrays.items() if key[0] not in workers}
        self._modes = set()

    def modes(self) -> frozenset[str]:
        return frozenset(self._modes)

    def advance(self) -> None:
        """Add the current point to the history."""
        for array in self.arrays() if self._point.arrays else ():
            self._arrays.setdefault((array.worker, array.tensor), []).append(array)
        if self._history == 0:
            return
        for statistic in {name for _, selection in self._groups for name in selection.with_history}:
            for reading in self.readings(statistic, None):
                self._past_of(reading).append(Earlier(reading.mode_step, reading.step, reading.value))

    def readings(self, statistic: str, where: Callable[[Floats], Choices] | None) -> list[TensorReading]:
        if where is not None:
            return self._ordered(self._selected(statistic), statistic, where)
        known = self._readings.get(statistic)
        if known is None:
            known = self._readings[statistic] = self._shared_readings(statistic)
        return known.copy()

    def _selected(self, statistic: str) -> list[tuple[RowGroup, _Columns]]:
        return [
            (group, selection.columns[statistic]) for group, selection in self._groups if statistic in selection.columns
        ]

    def _shared_readings(self, statistic: str) -> list[TensorReading]:
        """Return the readings of the current point, made once for all rules that select the same."""
        selected = self._selected(statistic)
        if not selected:
            return []
        key = (statistic, self._is_global, *(columns for _, columns in selected))
        shared = self._point.shared_readings.get(key)
        if shared is None:
            shared = self._point.shared_readings[key] = self._ordered(selected, statistic, None)
        return shared

    def _ordered(
        self,
        selected: Sequence[tuple[RowGroup, _Columns]],
        statistic: str,
        where: Callable[[Floats], Choices] | None,
    ) -> list[TensorReading]:
        readings = [
            reading for group, columns in selected for reading in self._readings_of(group, columns, statistic, where)
        ]
        is_ordered = not selected or (len(selected) == 1 and selected[0][0].is_ordered)
        return readings if is_ordered else sorted(readings, key=reading_order)

    def tensor_names(self) -> set[str]:
        """Return the needed tensors that the current point contains."""
        names = {array.tensor for array in self.arrays()}
        names.update(tensor for statistic in self._array_statistics for _, tensor in self._sources(statistic))
        for _, selection in self._groups:
            names.update(info.name for columns in selection.columns.values() for _, info in columns.tensors)
        return names

    def earlier(self, reading: TensorReading) -> Sequence[Earlier]:
        return self._past_of(reading)

    def is_comparison_step(self, reading: TensorReading, spacing: int) -> bool:
        past = self._past_of(reading)
        first = past[0].mode_step if past else reading.mode_step
        state = self._spacing.setdefault((_key(reading), spacing), [0, first - 1])
        for earlier in past[state[0] :] if isinstance(past, list) else past:
            if earlier.mode_step - state[1] >= spacing:
                state[1] = earlier.mode_step
        state[0] = len(past)
        return reading.mode_step - state[1] >= spacing

    def arrays(self) -> list[TensorArray]:
        needs = [need for need in self._needs if need.raw and self._applies(need)]
        if not needs or not self._point.arrays:
            return []
        infos = self._point.infos
        arrays = [
            array
            for array in self._point.arrays
            if layout.parse_vector_name(array.tensor) is None
            and any(need.selects(array.tensor, _collections(array.worker, array.tensor, infos)) for need in needs)
        ]
        return sorted(arrays, key=lambda array: (natural_sort_key(array.worker), natural_sort_key(array.tensor)))

    def vectors(self, statistic: str) -> list[TensorVector]:
        infos, point = self._point.infos, self._point
        vectors = []
        for (worker, tensor), array in self._sources(statistic).items():
            is_ready = array.tensor != tensor
            info = infos.get((worker, tensor))
            shape = info.shape if info else ()
            values = (
                array_statistics.trimmed(statistic, array.load())
                if is_ready
                else array_statistics.compute_vector(statistic, array.load())
            )
            vectors.append(
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
        return sorted(vectors, key=lambda vector: (natural_sort_key(vector.worker), natural_sort_key(vector.tensor)))

    def _sources(self, statistic: str) -> dict[tuple[str, str], TensorArray]:
        """Return the stored vector, or the raw tensor to compute it from, by worker and tensor."""
        needs = [need for need in self._needs if statistic in need.statistics and self._applies(need)]
        if not needs or not self._point.arrays:
            return {}
        infos = self._point.infos
        sources: dict[tuple[str, str], TensorArray] = {}
        for array in self._point.arrays:
            stored = layout.parse_vector_name(array.tensor)
            tensor = stored[0] if stored else array.tensor
            if stored is None and (statistic == "confusion" or (array.worker, tensor) in sources):
                continue
            if stored is not None and stored[1] != statistic:
                continue
            if any(need.selects(tensor, _collections(array.worker, tensor, infos)) for need in needs):
                sources[array.worker, tensor] = array
        return sources

    def array_before(self, array: TensorArray, distance: int) -> TensorArray | None:
        for earlier in reversed(self._arrays.get((array.worker, array.tensor), ())):
            if earlier.mode_step <= array.mode_step - distance:
                return earlier
        return None

    def _readings_of(
        self, group: RowGroup, columns: _Columns, statistic: str, where: Callable[[Floats], Choices] | None
    ) -> Iterator[TensorReading]:
        """Yield the readings of the rows of a group: the losses of all of them, then the others."""
        values, step = group.values[:, columns.indices], self._point.step
        mode, at_step = ("global", step) if self._is_global else (self._point.mode, -1)
        chosen = None if where is None else where(values.reshape(-1)).reshape(values.shape)
        for part in (slice(0, columns.losses), slice(columns.losses, None)):
            tensors = columns.tensors[part]
            if not tensors:
                continue
            for number, (row, numbers) in enumerate(zip(group.rows, values[:, part].tolist(), strict=True)):
                pairs: Iterable[tuple[tuple[int, TensorInfo], float]] = zip(tensors, numbers, strict=True)
                if chosen is not None:
                    pairs = compress(pairs, chosen[number, part].tolist())
                worker, time_ns = row.worker, row.time_ns
                mode_step = at_step if self._is_global else row.mode_step
                for (index, info), value in pairs:
                    yield TensorReading(
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

    def _past_of(self, reading: TensorReading) -> deque[Earlier] | list[Earlier]:
        key = _key(reading)
        if key not in self._past:
            self._past[key] = [] if self._history is None else deque(maxlen=self._history)
        return self._past[key]

    def _select(self, layout: SeriesLayout) -> _Selection:
        key = (id(layout), self._point.mode, bisect_right(self._ends, self._training_step))
        if key not in self._selections:
            self._selections[key] = (layout, self._make_selection(layout))
        return self._selections[key][1]

    def _make_selection(self, layout: SeriesLayout) -> _Selection:
        return _selection(_LayoutKey(layout), tuple(need for need in self._needs if self._applies(need)))

    def _applies(self, need: TensorNeed) -> bool:
        return self._is_of(need, self._point.mode) and (need.end is None or self._training_step < need.end)

    def _is_of(self, need: TensorNeed, mode: str) -> bool:
        return not need.modes or self._is_global or mode in need.modes


class _LayoutKey:
    """A layout as a cache key, by identity: comparing thousands of columns is as slow as selecting from them."""

    def __init__(self, layout: SeriesLayout) -> None:
        self.layout = layout

    def __hash__(self) -> int:
        return id(self.layout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LayoutKey) and other.layout is self.layout


@lru_cache(maxsize=512)
def _selection(key: _LayoutKey, needs: tuple[TensorNeed, ...]) -> _Selection:
    """Return the columns of a layout that the needs select; cached for later runs of the same model."""
    layout = key.layout
    statistics = {name for need in needs for name in need.statistics}
    selecting: dict[int, list[TensorNeed]] = {}
    columns: dict[str, list[int]] = {}
    with_history = set()
    for column, (index, statistic) in enumerate(layout.columns):
        if statistic not in statistics:
            continue
        if index not in selecting:
            info = layout.tensors[index]
            selecting[index] = [need for need in needs if need.selects(info.name, info.collections)]
        matching = [need for need in selecting[index] if statistic in need.statistics]
        if matching:
            columns.setdefault(statistic, []).append(column)
        if any(need.history != 0 for need in matching):
            with_history.add(statistic)
    return _Selection(
        {name: _in_order(key, tuple(indices)) for name, indices in columns.items()}, tuple(sorted(with_history))
    )


@lru_cache(maxsize=2048)
def _in_order(key: _LayoutKey, columns: tuple[int, ...]) -> _Columns:
    """Order the columns of one statistic like the readings of one worker (``reading_order``)."""
    layout = key.layout

    def order(column: int) -> tuple[bool, int]:
        index = layout.columns[column][0]
        return "losses" not in layout.tensors[index].collections, index

    ordered = sorted(columns, key=order)
    tensors = tuple((layout.columns[column][0], layout.tensors[layout.columns[column][0]]) for column in ordered)
    losses = sum("losses" in info.collections for _, info in tensors)
    return _Columns(np.asarray(ordered, dtype=np.intp), tensors, losses)


def _collections(worker: str, name: str, infos: Infos) -> tuple[str, ...]:
    info = infos.get((worker, name))
    return info.collections if info else guess_collections(name)


_OF_MODULE: Final = re.compile(r"(?:.*\.)?(.+_(?:input|output))_\d+$")


def guess_collections(name: str) -> tuple[str, ...]:
    """Guess the collections of a tensor of which only the name is known."""
    if name.startswith("gradient/"):
        return ("gradients",)
    of_module = _OF_MODULE.match(name)
    if of_module:
        return ("layers", of_module[1])
    return ("biases",) if name.rpartition(".")[2] == "bias" else ("weights",)


def _key(reading: TensorReading) -> _Key:
    return reading.worker, reading.tensor, reading.statistic, reading.mode
