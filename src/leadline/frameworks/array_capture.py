"""What a step leaves behind as numpy arrays: statistics and raw copies of those that are wished for, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.records.plan import CaptureItem, custom_collections
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.statistics.arrays import compute, compute_vector
from leadline.statistics.definitions import find_statistic
from leadline.store.layout import vector_name
from leadline.store.tensors import CaptureForm, HostBuffer
from leadline.training.pending import Pending

Array = npt.NDArray[Any]

_SAFETENSORS_TYPES: Final = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "complex64": "C64",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
_MOST_FORMS: Final = 16
_BESIDE_RAW: Final = ("max",)
_NOT_HERE: Final = frozenset({"update", "number", "pair"})
"""Sources of statistics that one array by itself does not have."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some columns of a row that recur."""

    tensors: tuple[TensorInfo, ...]
    columns: tuple[tuple[int, str], ...]
    """For each value: index into ``tensors``, name of the statistic."""


class CapturedArrays:
    """See ``leadline.frameworks.adapter.Forward``: filled array by array within a step, emptied by the recorder.

    Args:
        tell: Takes a line about something that cannot be captured.
        change_bytes: Memory for what arrays were at their previous capture; beyond it what compares with that is
            absent.
    """

    def __init__(self, tell: Callable[[str], None], *, change_bytes: int = 64 << 20) -> None:
        self.own_ns = self.begun_ns = 0
        self.accuracy: dict[str, Any] = {}
        self._tell = tell
        self._items: Sequence[CaptureItem] = ()
        self._mode = "train"
        self._blocks: list[tuple[Block, npt.NDArray[np.float64]]] = []
        self._raw: list[tuple[str, Array]] = []
        self._known: dict[tuple[Any, ...], Block] = {}
        self._layouts: dict[tuple[int, ...], tuple[list[Block], SeriesLayout]] = {}
        self._forms: dict[tuple[Any, ...], CaptureForm] = {}
        self._earlier: dict[tuple[str, str], Array] = {}
        self._lasting: dict[str, tuple[Array, tuple[str, ...], npt.NDArray[np.float64]]] = {}
        self._room_bytes = change_bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing was kept since ``begin``."""
        return not self._blocks and not self._raw

    def begin(self, items: Sequence[CaptureItem], mode: str) -> None:
        """Forget what was captured before; from here on these are the wishes."""
        self._items, self._mode, self.own_ns, self.begun_ns = items, mode, 0, 0
        self._blocks, self._raw = [], []

    def wish(self, name: str, collections: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
        """Which statistics of an array are wished for, and whether it itself is."""
        own = frozenset(collections)
        chosen = [item for item in self._items if item.selects(name, own)]
        statistics = tuple(dict.fromkeys(each for item in chosen for each in item.statistics))
        return statistics, any(item.raw for item in chosen)

    def numbers(self, block: Block, values: npt.NDArray[np.float64]) -> None:
        """Keep numbers that are worked out already.

        Shape:
            values: one for each of the block's columns.
        """
        self._blocks.append((block, values))

    def keep(
        self,
        name: str,
        collections: tuple[str, ...],
        array: Array,
        *,
        without: frozenset[str] = frozenset(),
        is_lasting: bool = False,
    ) -> None:
        """Read an array at once, if somebody wishes for it: it may be changed a moment later.

        Args:
            without: Statistics that are not taken, since somebody else knows better.
            is_lasting: Nobody changes it: what was worked out of the very same array is so still.
        """
        statistics, is_raw = self.wish(name, collections)
        found = [find_statistic(each) for each in statistics if each not in without]
        for each in found:
            if each.is_vector and each.source not in _NOT_HERE and not is_empty_of(each.source, array):
                self.vector(name, each.name, compute_vector(each.name, array))
        columns = tuple(each.name for each in found if not each.is_vector and each.source not in _NOT_HERE)
        if is_raw and not columns:
            columns = _BESIDE_RAW  # a row tells which collections it is a member of
        if columns:
            self._keep_numbers(name, collections, array, columns, is_lasting=is_lasting)
        if is_raw:
            self.raw(name, array)

    def _keep_numbers(
        self, name: str, collections: tuple[str, ...], array: Array, columns: tuple[str, ...], *, is_lasting: bool
    ) -> None:
        known = self._lasting.get(name) if is_lasting else None
        if known is not None and known[0] is array and known[1] == columns:
            values = known[2]
        else:
            values = self._values(name, array, columns)
            if is_lasting and not _compares(columns):
                self._lasting[name] = (array, columns, values)
        mine = (*collections, *custom_collections(self._items, name, collections))
        key = (name, mine, array.shape, array.dtype, columns)
        if key not in self._known:
            info = TensorInfo(name, mine, tuple(array.shape), str(array.dtype))
            self._known[key] = Block((info,), tuple((0, each) for each in columns))
        self._blocks.append((self._known[key], values))

    def _values(self, name: str, array: Array, columns: tuple[str, ...]) -> npt.NDArray[np.float64]:
        before = self._before(name, array) if _compares(columns) else None
        values = []
        for each in columns:
            if find_statistic(each).source == "change" and before is None:
                values.append(float("nan"))
            else:
                values.append(compute(each, array, before))
        return np.array(values, np.float64)

    def _before(self, name: str, array: Array) -> Array | None:
        """What the array was at its previous capture; as it is now it is what the next is compared with."""
        key = (self._mode, name)
        known = self._earlier.pop(key, None)
        self._room_bytes += known.nbytes if known is not None else 0
        if array.nbytes <= self._room_bytes:
            self._earlier[key] = array.copy()
            self._room_bytes -= array.nbytes
        else:
            self._tell(f"what {name} was before is not kept: it takes {array.nbytes:,} bytes")
        return known if known is not None and known.shape == array.shape else None

    def vector(self, name: str, statistic: str, values: Array) -> None:
        """Keep a statistic that is an array itself."""
        self._raw.append((vector_name(name, statistic), values))

    def raw(self, name: str, array: Array) -> None:
        """Keep a copy of an array."""
        if str(array.dtype) not in _SAFETENSORS_TYPES:
            self._tell(f"{name} is not stored: safetensors has no type {array.dtype}")
            return
        self._raw.append((name, np.array(array, order="C")))

    def row(self) -> tuple[SeriesLayout, bytes] | None:
        """The statistics of what was captured since ``begin``."""
        if not self._blocks:
            return None
        blocks, self._blocks = self._blocks, []
        key = tuple(id(block) for block, _ in blocks)
        if key not in self._layouts:
            if len(self._layouts) > _MOST_FORMS:
                self._layouts.clear()
            parts = [block for block, _ in blocks]
            self._layouts[key] = (parts, _joined(parts))  # the parts live on, so that no other has their ids
        values = np.concatenate([values for _, values in blocks])
        return self._layouts[key][1], values.astype("<f8").tobytes()

    def raw_form(self) -> CaptureForm | None:
        """The form of the raw arrays that were captured."""
        if not self._raw:
            return None
        self._raw.sort(key=lambda each: -each[1].dtype.itemsize)  # the widest first: each is aligned to its elements
        key = (self._mode, *((name, array.shape, array.dtype) for name, array in self._raw))
        if key not in self._forms:
            if len(self._forms) > _MOST_FORMS:
                self._forms.clear()
            entries = [(name, _SAFETENSORS_TYPES[str(a.dtype)], tuple(a.shape), a.nbytes) for name, a in self._raw]
            self._forms[key] = CaptureForm(entries, self._mode)
        return self._forms[key]

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy the raw arrays into a buffer of ``raw_form()``.

        Args:
            buffer: None: there is no room for them, and they are forgotten.
        """
        raw, self._raw = self._raw, []
        if buffer is None:
            return None
        for slot, (_, array) in zip(buffer.form.slots, raw, strict=True):
            start = buffer.form.header_bytes + slot.offset
            buffer.memory[start : start + slot.bytes] = array.tobytes()
        return None


def _compares(columns: Sequence[str]) -> bool:
    """Whether one of these statistics compares an array with what it was before."""
    return any(find_statistic(each).source == "change" for each in columns)


def is_empty_of(source: str, array: Array) -> bool:
    """Whether an array has nothing of which a statistic of that source could speak."""
    return source == "units" and array.ndim < 1


def _joined(blocks: Sequence[Block]) -> SeriesLayout:
    tensors: list[TensorInfo] = []
    columns: list[tuple[int, str]] = []
    for block in blocks:
        columns += [(len(tensors) + index, statistic) for index, statistic in block.columns]
        tensors += block.tensors
    return SeriesLayout(tuple(tensors), tuple(columns))
