"""Fields of protobuf messages, for the few message types of event files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

Value = int | bytes
"""The value of a field: a varint, or the bytes of a fixed-width or length-delimited field."""

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_MAX_VARINT_BYTES: Final = 10


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message in order, each with its number.

    Raises:
        ValueError: The message is damaged.
    Source:
        Protocol Buffers documentation, "Encoding".
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            length, at = _varint(message, at)
        if length is None or at + length > len(message):
            raise ValueError(f"its message is damaged at byte {at}")
        yield number, message[at : at + length]
        at += length


def signed(value: Value) -> int:
    """Return a varint as a signed 64-bit integer."""
    if not isinstance(value, int):
        raise ValueError("a number of its message has another type")
    return value - (1 << 64) if value >> 63 else value


def content(value: Value) -> bytes:
    """Return the bytes of a field."""
    if not isinstance(value, bytes):
        raise ValueError("a part of its message has another type")
    return value


def double(value: Value) -> float:
    """Return a fixed-width field as a float64."""
    data = content(value)
    if len(data) != 8:
        raise ValueError("a number of its message has another width")
    return float(struct.unpack("<d", data)[0])


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned integer, and the offset after it."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if at + index >= len(message):
            break
        byte = message[at + index]
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            return value & (1 << 64) - 1, at + index + 1
    raise ValueError(f"its message is damaged at byte {at}")
