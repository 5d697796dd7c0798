"""Fields of protobuf messages, for the few message types that are read or written here without their schemas."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

Value = int | bytes | memoryview
"""The value of a field: a varint, or the bytes of a fixed-width or length-delimited field."""

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_MAX_VARINT_BITS: Final = 70
_MASK: Final = (1 << 64) - 1


def fields(message: bytes | memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message in order, each with its number.

    Raises:
        ValueError: The message is damaged.
    Source:
        Protocol Buffers documentation, "Encoding".
    """
    view, at, end = memoryview(message), 0, len(message)
    while at < end:
        key, at = view[at], at + 1
        if key > 127:  # most numbers of fields take one byte
            key, at = _varint(view, at - 1)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(view, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(view, at)
        elif kind == _FIXED64:
            length = 8
        elif kind == _FIXED32:
            length = 4
        else:
            raise _damage(at)
        if at + length > end:
            raise _damage(at)
        yield number, view[at : at + length]
        at += length


def signed(value: Value) -> int:
    """Return a varint as a signed 64-bit integer."""
    if not isinstance(value, int):
        raise ValueError("a number of its message has another type")
    return value - (1 << 64) if value >> 63 else value


def packed_integers(value: Value) -> Iterator[int]:
    """Yield the signed 64-bit integers that a field has packed.

    Raises:
        ValueError: The message is damaged.
    """
    view, at = submessage(value), 0
    while at < len(view):
        number, at = _varint(view, at)
        yield signed(number)


def content(value: Value) -> bytes:
    """Return the bytes of a field."""
    return bytes(submessage(value))


def submessage(value: Value) -> memoryview:
    """Return the bytes of a field without copying them."""
    if isinstance(value, int):
        raise ValueError("a part of its message has another type")
    return memoryview(value)


def double(value: Value) -> float:
    """Return a fixed-width field as a float64."""
    data = content(value)
    if len(data) != 8:
        raise ValueError("a number of its message has another width")
    return float(struct.unpack("<d", data)[0])


def integer_field(number: int, value: int) -> bytes:
    """Return a field with an integer of 64 bits, signed or not."""
    return _encoded_varint(number << 3 | _VARINT) + _encoded_varint(value & _MASK)


def bytes_field(number: int, data: bytes) -> bytes:
    """Return a field with bytes, a text in UTF-8, or a message."""
    return _encoded_varint(number << 3 | _BYTES) + _encoded_varint(len(data)) + data


def double_field(number: int, value: float) -> bytes:
    """Return a field with a float64."""
    return _encoded_varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def float_field(number: int, data: bytes) -> bytes:
    """Return a field with a float32, given as its four bytes."""
    return _encoded_varint(number << 3 | _FIXED32) + data


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned integer, and the offset after it."""
    value, shift, start = 0, 0, at
    try:
        while shift < _MAX_VARINT_BITS:
            byte = view[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & _MASK, at
            shift += 7
    except IndexError:
        raise _damage(start) from None
    raise _damage(start)


def _encoded_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def _damage(at: int) -> ValueError:
    return ValueError(f"its message is damaged at byte {at}")
