"""Reader of safetensors segments: an index and single tensors, without loading a framework."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.errors import DamagedRunError
from leadline.reader.incarnations import is_replaced, read_replacements
from leadline.remote.mirror import fill
from leadline.remote.object_store import StoreError
from leadline.store import layout
from leadline.store.folder_watch import FolderWatch
from leadline.store.run_files import open_regular, read_at_most

_PREFIX_BYTES: Final = 8
_MAX_HEADER_BYTES: Final = 256 << 20
_DTYPES: Final = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
    "C64": "<c8",
    "C128": "<c16",
    "BF16": "<u2",
    "F8_E4M3": "u1",
    "F8_E5M2": "u1",
}
TEXT: Final = "TEXT"
"""The type of texts: code points in four bytes each, as many for every element."""


def _from_bfloat16(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _from_e5m2(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert to float32; a float8 E5M2 is the upper byte of a float16."""
    with np.errstate(invalid="ignore"):  # signaling NaNs would warn
        return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)


def _from_e4m3(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert OCP 8-bit floating point E4M3 to float32: four exponent bits, three mantissa bits, no infinity."""
    exponent, mantissa = (bits >> 3 & 15).astype(np.int32), (bits & 7).astype(np.float32)
    moduli = np.ldexp(np.where(exponent == 0, mantissa, mantissa + 8), np.maximum(exponent, 1) - 10)
    moduli = np.where((bits & 127) == 127, np.float32("nan"), moduli)
    return np.where(bits & 128, -moduli, moduli).astype(np.float32)


_WIDENED: Final[dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]]] = {
    "BF16": _from_bfloat16,
    "F8_E4M3": _from_e4m3,
    "F8_E5M2": _from_e5m2,
}


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
        return self.dtype in _DTYPES

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
        return _WIDENED[self.dtype](values) if self.dtype in _WIDENED else values

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
        dtype = f"<U{self._characters}" if self.is_text else _DTYPES[self.dtype]
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
        self._cuts = read_replacements(run).of(worker)

    def read_new(self) -> list[StoredTensor]:
        """Return the tensors in the segments added since the last call."""
        tensors: list[StoredTensor] = []
        for entry in self._watch.new_entries() or ():
            if entry.name in self._seen or not entry.name.endswith(".safetensors"):
                continue
            self._seen.add(entry.name)
            try:
                found = read_header(entry.path, self.worker)
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                self.damage.append(
                    f"{layout.TENSORS}/{self.worker}/{entry.name}: its header cannot be read ({error}) (at byte 0)"
                )
                continue
            ordinal = int(entry.name.partition(".")[0]) if self._cuts else 0
            tensors += [tensor for tensor in found if not is_replaced(ordinal, tensor.step, self._cuts)]
        return tensors


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
        header = json.loads(read_at_most(file, length))
    texts = frozenset(json.loads(header.get("__metadata__", {}).get(layout.TEXTS, "[]")))
    tensors = []
    for key, entry in header.items():
        if key == "__metadata__":
            continue
        mode, step, name = layout.parse_tensor_key(key)
        start, end = entry["data_offsets"]
        first = _PREFIX_BYTES + length
        if first + end > size:
            raise ValueError("it is truncated")
        shape = tuple(int(extent) for extent in entry["shape"])
        dtype = entry["dtype"]
        _check_size(dtype, shape, end - start)
        if key in texts and dtype == "U32" and shape:
            dtype, shape = TEXT, shape[:-1]
        tensors.append(StoredTensor(path, first + start, end - start, dtype, shape, worker, mode, step, name))
    return tensors


def _check_size(dtype: str, shape: tuple[int, ...], nbytes: int) -> None:
    if min(shape, default=0) < 0 or nbytes < 0:
        raise ValueError("it contains a tensor with a negative size")
    if dtype in _DTYPES and nbytes != np.dtype(_DTYPES[dtype]).itemsize * math.prod(shape):
        raise ValueError("it contains a tensor whose size does not match its shape")
