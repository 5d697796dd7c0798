"""Reading safetensors segments: an index of what they hold, and single tensors without loading a framework."""

from __future__ import annotations

import json
import math
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.errors import DamagedRunError
from leadline.store import layout

_SETTLED_NS: Final = 100_000_000
"""A folder younger than this may still get a file within the same tick of its clock."""
_PREFIX_BYTES: Final = 8
_MOST_HEADER_BYTES: Final = 256 << 20
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


def _from_bfloat16(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _from_e5m2(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The upper byte of a float16."""
    with np.errstate(invalid="ignore"):  # a signalling NaN would be told of
        return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)


def _from_e4m3(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Four bits of exponent, three of mantissa, no infinity: OCP 8-bit floating point, E4M3."""
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
    """Where a tensor lies."""

    path: str
    offset: int
    nbytes: int
    dtype: str
    """As safetensors names it: ``F32``, ``BF16`` …"""
    shape: tuple[int, ...]
    worker: str
    mode: str
    step: int
    name: str

    @property
    def is_readable(self) -> bool:
        """Whether numpy has its type."""
        return self.dtype in _DTYPES

    def load(self) -> npt.NDArray[Any]:
        """The elements, ``(*shape,)``; bfloat16 and the types of eight bits as float32.

        Raises:
            DamagedRunError: They cannot be read, or are of a type that numpy does not have.
        """
        values = self.bits()
        return _WIDENED[self.dtype](values) if self.dtype in _WIDENED else values

    def bits(self) -> npt.NDArray[Any]:
        """The elements as they are stored, ``(*shape,)``; of types that numpy does not have the bits, as integers.

        Raises:
            DamagedRunError: As ``load``.
        """
        if not self.is_readable:
            raise DamagedRunError(
                f"{self.name} at step {self.step} is of type {self.dtype}; read {self.path} with its framework"
            )
        try:
            with open(self.path, "rb") as file:
                data = os.pread(file.fileno(), self.nbytes, self.offset)
        except OSError as error:
            raise DamagedRunError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(data) != self.nbytes:
            raise DamagedRunError(f"{self.path} is shorter than its header says (at byte {self.offset})")
        return np.frombuffer(data, dtype=_DTYPES[self.dtype]).reshape(self.shape)


class TensorIndex:
    """The safetensors segments of one worker, read as they appear; only their headers are read.

    Attributes:
        damage: One line for each segment that cannot be read.
    """

    def __init__(self, run: str, worker: str) -> None:
        self.worker = worker
        self.damage: list[str] = []
        self._folder = os.path.join(run, layout.TENSORS, worker)
        self._seen: set[str] = set()
        self._listed_ns = -1

    def read_new(self) -> list[StoredTensor]:
        """The tensors in segments that appeared since the last call."""
        found: list[StoredTensor] = []
        for name in self._new_names():
            self._seen.add(name)
            try:
                found += read_header(os.path.join(self._folder, name), self.worker)
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                self.damage.append(
                    f"{layout.TENSORS}/{self.worker}/{name}: its header cannot be read ({error}) (at byte 0)"
                )
        return found

    def _new_names(self) -> list[str]:
        """The segments that were not read yet; a folder that did not change is not listed again."""
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns
            if changed_ns == self._listed_ns:
                return []
            names = os.listdir(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        self._listed_ns = changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else -1
        return sorted(name for name in names if name.endswith(".safetensors") and name not in self._seen)


def read_header(path: str, worker: str) -> list[StoredTensor]:
    """What a safetensors file holds.

    Raises:
        ValueError: It is no whole safetensors file.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(_PREFIX_BYTES)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == _PREFIX_BYTES else 0
        if not 0 < length <= min(size, _MOST_HEADER_BYTES):
            raise ValueError("it is cut short")
        header = json.loads(file.read(length))
    found = []
    for key, entry in header.items():
        if key == "__metadata__":
            continue
        mode, step, name = layout.parse_tensor_key(key)
        start, end = entry["data_offsets"]
        first = _PREFIX_BYTES + length
        if first + end > size:
            raise ValueError("it is cut short")
        shape = tuple(int(each) for each in entry["shape"])
        _check_size(entry["dtype"], shape, end - start)
        found.append(StoredTensor(path, first + start, end - start, entry["dtype"], shape, worker, mode, step, name))
    return found


def _check_size(dtype: str, shape: tuple[int, ...], nbytes: int) -> None:
    if min(shape, default=0) < 0 or nbytes < 0:
        raise ValueError("a tensor of it has a negative size")
    if dtype in _DTYPES and nbytes != np.dtype(_DTYPES[dtype]).itemsize * math.prod(shape):
        raise ValueError("a tensor of it has not the size of its shape")
