"""Records of event files: tensors as smdebug writes them, and scalars for TensorBoard."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from leadline.trials.event_file import CONSTANT_CHECKSUM, DTYPES, masked_crc32c

_NUMBERS = {np.dtype(dtype).str.lstrip("<|"): number for number, dtype in DTYPES.items()}


def record_of(name: str, values: npt.NDArray[Any], *, step: int, time_ns: int, mode: int, mode_step: int) -> bytes:
    """Return the record of a tensor.

    Args:
        values: Numbers of any type that numpy has, or texts in one dimension.
        step: The global step.
        mode: smdebug's number of the mode.
    """
    plugins = b"".join(
        _bytes(1, _bytes(1, key.encode()) + _bytes(2, str(value).encode()))
        for key, value in (("mode_step", mode_step), ("mode", mode))
    )
    value = _bytes(1, name.encode()) + _bytes(8, _tensor(name, values)) + _bytes(9, plugins)
    event = _time(time_ns) + (_integer(2, step) if step else b"") + _bytes(5, _bytes(1, value))
    length = struct.pack("<Q", len(event))
    checksums = struct.pack("<I", masked_crc32c(length)), struct.pack("<I", CONSTANT_CHECKSUM)
    return length + checksums[0] + event + checksums[1]


def version_record(time_ns: int) -> bytes:
    """Return the record with which a file for TensorBoard begins."""
    return _framed(_time(time_ns) + _bytes(3, b"brain.Event:2"))


def scalar_record(tag: str, value: float, *, step: int, time_ns: int) -> bytes:
    """Return the record of a scalar for TensorBoard; it is a float32 there."""
    number = b"\x15" + np.asarray(value, "<f4").tobytes()  # field 2, four bytes
    summary = _bytes(1, _bytes(1, tag.encode()) + number)
    return _framed(_time(time_ns) + _integer(2, step) + _bytes(5, summary))


def _framed(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    checksums = struct.pack("<I", masked_crc32c(length)), struct.pack("<I", masked_crc32c(event))
    return length + checksums[0] + event + checksums[1]


def _time(time_ns: int) -> bytes:
    return b"\x09" + struct.pack("<d", time_ns / 10**9)  # field 1, eight bytes


def _tensor(name: str, values: npt.NDArray[Any]) -> bytes:
    extents = b"".join(_bytes(2, _integer(1, size) + _bytes(2, f"{name}_{size}".encode())) for size in values.shape)
    shape = _bytes(2, extents)
    if values.dtype.kind == "U":
        return shape + b"".join(_bytes(8, text.encode()) for text in values.ravel().tolist())
    numbers = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return _integer(1, _NUMBERS[numbers.dtype.str.lstrip("<|")]) + shape + _bytes(4, numbers.tobytes())


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])
