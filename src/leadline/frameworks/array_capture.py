"""Capture of numpy arrays within a step: statistics and raw copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.formats.safetensors import STANDARD_NAMES
from leadline.frameworks.pending import Pending
from leadline.records.plan import CaptureItem, custom_collections
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.statistics.arrays import compute_vector
from leadline.statistics.definitions import find_statistic
from leadline.statistics.one_pass import compute_all
from leadline.store.layout import vector_name
from leadline.store.tensors import CaptureForm, HostBuffer

Array = npt.NDArray[Any]

_MAX_FORMS: Final = 16
_MAX_BLOCKS: Final = 1 << 14
_WITH_RAW: Final = ("max",)
_UNAVAILABLE: Final = frozenset({"update", "number", "pair"})
"""Sources of statistics that do not apply to a single array."""


@dataclass(frozen=True, slots=True)
class ColumnSet:
    """Recurring columns of a row."""

    tensors: tuple[TensorInfo, ...]
    columns: tuple[tuple[int, str], ...]
    """For each value the index into ``tensors`` and the name of the statistic."""


class CapturedArrays:
    """See ``leadline.frameworks.adapter.Forward``: filled array by array within a step, read by the recorder.

    Args:
        note: Takes a line about something that cannot be captured.
        change_bytes: Memory for previous captures; beyond it statistics that compare with them are absent.
    """

    def __init__(self, note: Callable[[str], None], *, change_bytes: int = 64 << 20) -> None:
        self.own_ns = self.begun_ns = 0
        self.accuracy: dict[str, Any] = {}
        self._note = note
        self._items: Sequence[CaptureItem] = ()
        self._mode = "train"
        self._blocks: list[tuple[ColumnSet, npt.NDArray[np.float64]]] = []
        self._raw: list[tuple[str, Array]] = []
        self._known_blocks: dict[tuple[Any, ...], ColumnSet] = {}
        self._layouts: dict[tuple[int, ...], tuple[list[ColumnSet], SeriesLayout]] = {}
        self._forms: dict[tuple[Any, ...], CaptureForm] = {}
        self._previous: dict[tuple[str, str], Array] = {}
        self._constant: dict[str, tuple[Array, tuple[str, ...], npt.NDArray[np.float64]]] = {}
        self._free_bytes = change_bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing was captured since ``begin``."""
        return not self._blocks and not self._raw

    def begin(self, items: Sequence[CaptureItem], mode: str) -> None:
        """Discard earlier captures, and capture these items from now on."""
        self._items = items
        self._mode = mode
        self.own_ns = 0
        self.begun_ns = 0
        self._blocks, self._raw = [], []

    def extend(self, items: Sequence[CaptureItem]) -> None:
        """Capture other items from now on, beside what was captured."""
        self._items = items

    def requested(self, name: str, collections: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
        """Return the statistics of an array that the items select, and whether they select the array itself."""
        members = frozenset(collections)
        items = [item for item in self._items if item.selects(name, members)]
        statistics = tuple(dict.fromkeys(statistic for item in items for statistic in item.statistics))
        return statistics, any(item.raw for item in items)

    def keep_numbers(self, block: ColumnSet, values: npt.NDArray[np.float64]) -> None:
        """Keep statistics that are computed already.

        Shape:
            values: one per column of the block.
        """
        self._blocks.append((block, values))

    def keep(
        self,
        name: str,
        collections: tuple[str, ...],
        array: Array,
        *,
        without: frozenset[str] = frozenset(),
        is_constant: bool = False,
    ) -> None:
        """Capture an array at once, if an item selects it: it may change immediately afterwards.

        Args:
            without: Statistics that are not computed, because the caller computes them.
            is_constant: Whether it never changes: statistics of the identical array are reused.
        """
        statistics, is_raw = self.requested(name, collections)
        selected = [find_statistic(statistic) for statistic in statistics if statistic not in without]
        available = [statistic for statistic in selected if statistic.source not in _UNAVAILABLE]
        for statistic in available:
            if statistic.is_vector and _has_source(statistic.source, array):
                self.keep_vector(name, statistic.name, compute_vector(statistic.name, array))
        columns = tuple(statistic.name for statistic in available if not statistic.is_vector)
        if not columns and (is_raw or (available and not without)):
            columns = _WITH_RAW  # the row carries the collections of the array
        if columns:
            self._keep_statistics(name, collections, array, columns, is_constant=is_constant)
        if is_raw:
            self.keep_raw(name, array)

    def _keep_statistics(
        self, name: str, collections: tuple[str, ...], array: Array, columns: tuple[str, ...], *, is_constant: bool
    ) -> None:
        known = self._constant.get(name) if is_constant else None
        if known is not None and known[0] is array and known[1] == columns:
            values = known[2]
        else:
            values = self._values(name, array, columns)
            if is_constant and not _compares(columns):
                self._constant[name] = (array, columns, values)
        members = (*collections, *custom_collections(self._items, name, collections))
        key = (name, members, array.shape, array.dtype, columns)
        if key not in self._known_blocks:
            if len(self._known_blocks) > _MAX_BLOCKS:
                self._known_blocks.clear()  # shapes that may never recur
            info = TensorInfo(name, members, tuple(array.shape), str(array.dtype))
            self._known_blocks[key] = ColumnSet((info,), tuple((0, statistic) for statistic in columns))
        self._blocks.append((self._known_blocks[key], values))

    def _values(self, name: str, array: Array, columns: tuple[str, ...]) -> npt.NDArray[np.float64]:
        previous = self._swap_previous(name, array) if _compares(columns) else None
        known = [name for name in columns if previous is not None or find_statistic(name).source != "change"]
        values = dict(zip(known, compute_all(known, array, previous), strict=True))
        return np.array([values.get(statistic, float("nan")) for statistic in columns], np.float64)

    def _swap_previous(self, name: str, array: Array) -> Array | None:
        """Return the array at its previous capture, and keep it as it is now for the next."""
        key = (self._mode, name)
        known = self._previous.pop(key, None)
        self._free_bytes += known.nbytes if known is not None else 0
        if array.nbytes <= self._free_bytes:
            self._previous[key] = array.copy()
            self._free_bytes -= array.nbytes
        else:
            self._note(f"changes of {name} are not computed: a copy of it takes {array.nbytes:,} bytes")
        return known if known is not None and known.shape == array.shape else None

    def keep_vector(self, name: str, statistic: str, values: Array) -> None:
        """Keep a statistic that is itself an array."""
        self._raw.append((vector_name(name, statistic), values))

    def keep_raw(self, name: str, array: Array) -> None:
        """Keep a copy of an array."""
        if str(array.dtype) not in STANDARD_NAMES:
            self._note(f"{name} is not stored: safetensors has no type {array.dtype}")
            return
        self._raw.append((name, np.array(array, order="C")))

    def row(self) -> tuple[SeriesLayout, bytes] | None:
        """Return the statistics captured since ``begin``."""
        if not self._blocks:
            return None
        blocks, self._blocks = self._blocks, []
        key = tuple(id(block) for block, _ in blocks)
        if key not in self._layouts:
            if len(self._layouts) > _MAX_FORMS:
                self._layouts.clear()
            parts = [block for block, _ in blocks]
            self._layouts[key] = (parts, _joined(parts))  # the parts are kept alive, so that their ids stay unique
        values = np.concatenate([values for _, values in blocks])
        return self._layouts[key][1], values.astype("<f8").tobytes()

    def raw_form(self) -> CaptureForm | None:
        """Return the form of the captured raw arrays."""
        if not self._raw:
            return None
        self._raw.sort(key=lambda entry: -entry[1].dtype.itemsize)  # widest first: all are aligned to their elements
        key = (self._mode, *((name, array.shape, array.dtype) for name, array in self._raw))
        if key not in self._forms:
            if len(self._forms) > _MAX_FORMS:
                self._forms.clear()
            entries = [(name, STANDARD_NAMES[str(a.dtype)], tuple(a.shape), a.nbytes) for name, a in self._raw]
            self._forms[key] = CaptureForm(entries, self._mode)
        return self._forms[key]

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy the raw arrays into a buffer of ``raw_form()``.

        Args:
            buffer: None if there is no memory for them: the arrays are dropped.
        """
        raw, self._raw = self._raw, []
        if buffer is None:
            return None
        for slot, (_, array) in zip(buffer.form.slots, raw, strict=True):
            start = buffer.form.header_bytes + slot.offset
            buffer.memory[start : start + slot.bytes] = array.tobytes()
        return None


def _compares(columns: Sequence[str]) -> bool:
    """Return whether one of these statistics compares an array with its previous capture."""
    return any(find_statistic(statistic).source == "change" for statistic in columns)


def _has_source(source: str, array: Array) -> bool:
    """Return whether an array has the dimensions that a source of statistics needs."""
    return source != "units" or array.ndim >= 1


def _joined(blocks: Sequence[ColumnSet]) -> SeriesLayout:
    tensors: list[TensorInfo] = []
    columns: list[tuple[int, str]] = []
    for block in blocks:
        columns += [(len(tensors) + index, statistic) for index, statistic in block.columns]
        tensors += block.tensors
    return SeriesLayout(tuple(tensors), tuple(columns))
