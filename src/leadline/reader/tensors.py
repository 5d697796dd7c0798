"""Reader of safetensors segments: an index and single tensors, without loading a framework."""

from __future__ import annotations

import json
import math
import os
import struct
from dataclasses import dataclass
from io import FileIO
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.errors import DamagedRunError
from leadline.formats.safetensors import TYPES
from leadline.reader.incarnations import is_replaced, read_replacements
from leadline.remote.mirror import fill
from leadline.remote.object_store import StoreError
from leadline.store import layout
from leadline.store.folder_watch import FolderWatch
from leadline.store.run_files import open_regular, read_at_most

_PREFIX_BYTES: Final = 8
_MAX_HEADER_BYTES: Final = 256 << 20
_MAX_BLOCK_BYTES: Final = 64 << 20
_DAMAGE: Final = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
TEXT: Final = "TEXT"
"""The type of texts: code points in four bytes each, as many for every element."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The location of a stored tensor."""

    path: str
    offset: int
    nbytes: int
    dtype: str
    """The safetensors name: ``F32``, ``BF16`` …"""
    shape: tuple[int, ...]
    worker: str
    mode: str
    step: int
    name: str

    @property
    def is_readable(self) -> bool:
        """Whether its elements are numbers of a type that numpy supports."""
        return self.dtype in TYPES

    @property
    def is_text(self) -> bool:
        """Whether its elements are texts."""
        return self.dtype == TEXT

    def load(self) -> npt.NDArray[Any]:
        """Read the elements, ``(*shape,)``; bfloat16 and 8-bit floating-point types are converted to float32.

        Raises:
            DamagedRunError: They cannot be read, or numpy does not support their type.
        """
        values = self.bits()
        widen = TYPES[self.dtype].widen if self.is_readable else None
        return widen(values) if widen is not None else values

    def bits(self) -> npt.NDArray[Any]:
        """Read the elements as stored, ``(*shape,)``; types that numpy does not support are returned as integers.

        Raises:
            DamagedRunError: As ``load``.
        """
        is_known = self.is_readable or self.is_text
        try:
            fill(self.path, self.offset, self.offset + self.nbytes)
        except StoreError as error:
            raise DamagedRunError(f"{self.name} at step {self.step} cannot be fetched: {error}") from error
        if not is_known:
            raise DamagedRunError(
                f"{self.name} at step {self.step} has type {self.dtype}; read {self.path} with its framework"
            )
        try:
            with open_regular(self.path) as file:
                data = os.pread(file.fileno(), self.nbytes, self.offset)
        except OSError as error:
            raise DamagedRunError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(data) != self.nbytes:
            raise DamagedRunError(f"{self.path} is shorter than its header says (at byte {self.offset})")
        dtype = f"<U{self._characters}" if self.is_text else TYPES[self.dtype].stored
        if self.path.endswith(layout.PACK):
            whole = np.dtype(dtype).itemsize * math.prod(self.shape)
            data = data[:whole].ljust(whole, b"\0")
        return np.frombuffer(data, dtype=dtype).reshape(self.shape)

    @property
    def _characters(self) -> int:
        """The characters of each element of a text."""
        return max(1, self.nbytes // 4 // max(1, math.prod(self.shape)))


class TensorIndex:
    """Incremental index of the safetensors segments of a worker; only their headers are read.

    What incarnations that had begun by then have replaced is left out.

    Attributes:
        damage: One line for each unreadable segment.
    """

    def __init__(self, run: str, worker: str) -> None:
        self.worker = worker
        self.damage: list[str] = []
        self._watch = FolderWatch(os.path.join(run, layout.TENSORS, worker))
        self._seen: set[str] = set()
        self._packs: dict[str, PackTail] = {}
        self._cuts = read_replacements(run).of(worker)

    def read_new(self) -> list[StoredTensor]:
        """Return the tensors in the segments added since the last call."""
        found: dict[str, list[StoredTensor]] = {}
        for entry in self._watch.new_entries() or ():
            if entry.name in self._seen or not entry.name.endswith((".safetensors", layout.PACK)):
                continue
            self._seen.add(entry.name)
            if entry.name.endswith(layout.PACK):
                self._packs[entry.name] = PackTail(entry.path, self.worker)
                continue
            try:
                found[entry.name] = read_header(entry.path, self.worker)
            except _DAMAGE as error:
                self._report(entry.name, error, 0)
        for name, pack in self._packs.items():
            was_damaged, found[name] = pack.damage is not None, pack.read_new()
            if pack.damage is not None and not was_damaged:
                self._report(name, pack.damage, pack.offset)
        return [
            tensor
            for name in sorted(found)
            for tensor in found[name]
            if not self._cuts or not is_replaced(int(name.partition(".")[0]), tensor.step, self._cuts)
        ]

    def _report(self, name: str, error: Exception, offset: int) -> None:
        self.damage.append(
            f"{layout.TENSORS}/{self.worker}/{name}: its header cannot be read ({error}) (at byte {offset})"
        )


class PackTail:
    """Incremental reader of a file of array statistics, whose last block may not be complete yet.

    Attributes:
        offset: Up to which byte it was read.
        damage: Why the next block cannot be read; nothing more is read then.
    """

    def __init__(self, path: str, worker: str) -> None:
        self.offset = 0
        self.damage: Exception | None = None
        self._path, self._worker, self._size = path, worker, 0
        """The size of the file when nothing more could be read."""

    def read_new(self) -> list[StoredTensor]:
        """Return the arrays in the blocks added since the last call; an unchanged file costs a single ``stat``."""
        tensors: list[StoredTensor] = []
        if self.damage is not None or _size(self._path) == self._size:
            return tensors
        try:
            with open_regular(self._path) as file:
                size = os.fstat(file.fileno()).st_size
                while block := _read_block(file, self.offset, size, self._path, self._worker):
                    self.offset, found = block
                    tensors += found
            self._size = size
        except _DAMAGE as error:
            self.damage = error
        return tensors


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:  # it was removed meanwhile
        return 0


def _read_block(file: FileIO, offset: int, size: int, path: str, worker: str) -> tuple[int, list[StoredTensor]] | None:
    """Return the end of the block at an offset, and its arrays; None: it is not complete.

    Raises:
        ValueError: It is damaged.
    """
    file.seek(offset)
    prefix = file.read(_PREFIX_BYTES)
    if len(prefix) < _PREFIX_BYTES:
        return None
    (length,) = struct.unpack("<Q", prefix)
    if not 0 < length <= _MAX_BLOCK_BYTES:
        raise ValueError("it has a wrong length")
    first = offset + _PREFIX_BYTES + length
    if first > size:
        return None
    tensors = _parse_header(read_at_most(file, length), path, first, worker, has_all=False)
    end = max([first, *(tensor.offset + tensor.nbytes for tensor in tensors)])
    return (end, tensors) if end <= size else None


def read_header(path: str, worker: str) -> list[StoredTensor]:
    """Return the tensors in a safetensors file.

    Raises:
        ValueError: The file is not a complete safetensors file.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(_PREFIX_BYTES)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == _PREFIX_BYTES else 0
        if not 0 < length <= min(size, _MAX_HEADER_BYTES):
            raise ValueError("it is truncated")
        header = read_at_most(file, length)
    tensors = _parse_header(header, path, _PREFIX_BYTES + length, worker)
    if any(tensor.offset + tensor.nbytes > size for tensor in tensors):
        raise ValueError("it is truncated")
    return tensors


def _parse_header(data: bytes, path: str, first: int, worker: str, *, has_all: bool = True) -> list[StoredTensor]:
    """Return the tensors that a header lists.

    Args:
        first: The offset of the data in the file.
        has_all: Whether the data of each tensor are complete; otherwise zeros at its end may be left out.
    """
    header = json.loads(data)
    texts = frozenset(json.loads(header.get("__metadata__", {}).get(layout.TEXTS, "[]")))
    tensors = []
    for key, entry in header.items():
        if key == "__metadata__":
            continue
        mode, step, name = layout.parse_tensor_key(key)
        start, end = entry["data_offsets"]
        shape = tuple(int(extent) for extent in entry["shape"])
        dtype = entry["dtype"]
        _check_size(dtype, shape, start, end, has_all=has_all)
        if key in texts and dtype == "U32" and shape:
            dtype, shape = TEXT, shape[:-1]
        tensors.append(StoredTensor(path, first + start, end - start, dtype, shape, worker, mode, step, name))
    return tensors


def _check_size(dtype: str, shape: tuple[int, ...], start: int, end: int, *, has_all: bool) -> None:
    nbytes = end - start
    if min(shape, default=0) < 0 or nbytes < 0 or start < 0:
        raise ValueError("it contains a tensor with a negative size")
    whole = np.dtype(TYPES[dtype].stored).itemsize * math.prod(shape) if dtype in TYPES else nbytes
    if whole > _MAX_BLOCK_BYTES and not has_all:
        raise ValueError("it contains an array that is larger than any statistic")
    if nbytes != whole and (has_all or nbytes > whole + _PREFIX_BYTES):
        raise ValueError("it contains a tensor whose size does not match its shape")
