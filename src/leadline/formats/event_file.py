"""Event files, as TensorBoard reads them and smdebug writes them: records of tensors and scalars with checksums."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.formats.protobuf import (
    Value,
    bytes_field,
    content,
    double,
    double_field,
    fields,
    float_field,
    integer_field,
    signed,
)

_HEAD: Final = struct.Struct("<QI")
_LENGTH: Final = struct.Struct("<Q")
_FOOT: Final = struct.Struct("<I")
_SINGLE: Final = struct.Struct("<f")
FRAMING_BYTES: Final = _HEAD.size + _FOOT.size
"""The bytes of a record beside its message: its length, and the checksums of length and message."""
CONSTANT_CHECKSUM: Final = 0x062DC0B3
"""What smdebug writes in place of the checksum of a message: that of the text ``0x12345678``."""
_MASK_DELTA: Final = 0xA282EAD8
_POLYNOMIAL: Final = 0x82F63B78
_MAX_SECONDS: Final = 9e9
"""Later times do not fit into nanoseconds of 64 bits."""
_TEXT: Final = (0, 7)
"""The types of texts: smdebug writes none, TensorFlow 7."""
DTYPES: Final = {
    1: "<f4",
    2: "<f8",
    3: "<i4",
    4: "u1",
    5: "<i2",
    6: "i1",
    8: "<c8",
    9: "<i8",
    10: "?",
    17: "<u2",
    18: "<c16",
    19: "<f2",
    22: "<u4",
    23: "<u8",
}
"""numpy's types by the number of TensorFlow's ``DataType``."""
_NUMBERS: Final = {np.dtype(dtype).str.lstrip("<|"): number for number, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class RecordedTensor:
    """The tensor of one record."""

    name: str
    step: int
    """The global step."""
    time_ns: int
    values: npt.NDArray[Any]
    mode: int | None = None
    """smdebug's number of the mode; None: the record has none."""
    mode_step: int | None = None
    """The step within the mode."""


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_TABLE: Final = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """Return the masked CRC-32C of some bytes.

    Source:
        RFC 3720, appendix B.4; the mask is that of TensorFlow's record files.
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def message_of(record: bytes) -> bytes:
    """Return the message of a record, after checking its length and checksums.

    Raises:
        ValueError: The record is truncated or damaged.
    """
    if len(record) < FRAMING_BYTES:
        raise ValueError("its record is truncated")
    length, length_checksum = _HEAD.unpack_from(record)
    if masked_crc32c(record[:8]) != length_checksum:
        raise ValueError("the checksum of its record's length does not match")
    if len(record) != length + FRAMING_BYTES:
        raise ValueError("its record is truncated")
    message = record[_HEAD.size : _HEAD.size + length]
    (checksum,) = _FOOT.unpack_from(record, _HEAD.size + length)
    if checksum != CONSTANT_CHECKSUM and checksum != masked_crc32c(message):
        raise ValueError("the checksum of its record does not match")
    return message


def read_tensor(record: bytes) -> RecordedTensor:
    """Return the tensor of a record of an event file.

    Raises:
        ValueError: The record is truncated or damaged, or does not contain a tensor.
    """
    step, seconds, summary = _event(message_of(record))
    entries = [content(value) for number, value in fields(summary) if number == 1]
    parts = dict(fields(entries[0])) if entries else {}
    if 1 not in parts or 8 not in parts:
        raise ValueError("its record contains no tensor")
    if not 0.0 <= seconds < _MAX_SECONDS:
        raise ValueError("its record has no valid time")
    name = content(parts[1]).decode()
    marks = _marks(content(parts.get(9, b"")))
    values = _array(content(parts[8]))
    return RecordedTensor(name, step, nanoseconds(seconds), values, marks.get("mode"), marks.get("mode_step"))


def _event(message: bytes) -> tuple[int, float, bytes]:
    """Return the step, the time in seconds, and the summary of an Event."""
    step, seconds, summary = 0, 0.0, b""
    for number, value in fields(message):
        match number:
            case 1:
                seconds = double(value)
            case 2:
                step = signed(value)
            case 5:
                summary = content(value)
    return step, seconds, summary


def read_file(data: bytes) -> Iterator[RecordedTensor]:
    """Yield the tensors of the bytes of a whole event file.

    Raises:
        ValueError: A record is truncated or damaged.
    """
    at = 0
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise ValueError(f"byte {at:,}: its record is truncated")
        end = at + _HEAD.unpack_from(data, at)[0] + FRAMING_BYTES
        try:
            yield read_tensor(data[at:end])
        except ValueError as error:
            raise ValueError(f"byte {at:,}: {error}") from None
        at = end


def read_scalars(data: bytes) -> Iterator[tuple[str, int, int, float]]:
    """Yield the scalars of the bytes of an event file: name, step, time in nanoseconds, value.

    An incomplete last record, which its writer has not finished, is left out. The checksums of messages are not
    computed: files of TensorBoard have many megabytes.

    Raises:
        ValueError: A record is damaged.
    """
    at = 0
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        if masked_crc32c(data[at : at + 8]) != checksum:
            raise ValueError(f"byte {at:,}: the checksum of its record's length does not match")
        end = at + length + FRAMING_BYTES
        if end > len(data):
            return
        yield from _scalars_of(data[at + _HEAD.size : at + _HEAD.size + length])
        at = end


def _scalars_of(message: bytes) -> Iterator[tuple[str, int, int, float]]:
    step, seconds, summary = _event(message)
    for number, entry in fields(summary):
        parts = dict(fields(content(entry))) if number == 1 else {}
        found = _scalar(parts)
        if found is not None and 1 in parts:
            time_ns = nanoseconds(seconds) if 0.0 <= seconds < _MAX_SECONDS else 0
            yield content(parts[1]).decode(errors="replace"), step, time_ns, found


def _scalar(parts: dict[int, Value]) -> float | None:
    """Return the number of a value of a summary: a simple one, or a tensor of one element; None: it is none."""
    if 2 in parts:
        return float(_SINGLE.unpack(content(parts[2]))[0])
    if 8 not in parts:
        return None
    dtype, shape, data, single = 0, tuple[int, ...](), b"", math.nan
    for number, value in fields(content(parts[8])):
        match number:
            case 1:
                dtype = signed(value)
            case 2:
                shape = _shape(content(value))
            case 4:
                data = content(value)
            case 5:  # float_val, packed or not
                single = float(_SINGLE.unpack(content(value)[:4])[0])
    if math.prod(shape) != 1 or dtype in _TEXT or dtype not in DTYPES:
        return None
    if not data:
        return single
    values = np.frombuffer(data, dtype=DTYPES[dtype])
    return float(values[0]) if values.size == 1 and values.dtype.kind in "fiub" else None


def nanoseconds(seconds: float) -> int:
    """Return a time in nanoseconds, of which ``/ 10**9`` returns the same float again."""
    whole = int(seconds)
    return whole * 10**9 + round((seconds - whole) * 1e9)


def _marks(metadata: bytes) -> dict[str, int]:
    """Return the numbers that smdebug keeps as data of plugins: mode, and step within it."""
    marks = {}
    for number, value in fields(metadata):
        parts = dict(fields(content(value))) if number == 1 else {}
        text = content(parts.get(2, b"")).decode(errors="replace")
        if text.isdecimal():
            marks[content(parts.get(1, b"")).decode(errors="replace")] = int(text)
    return marks


def _array(message: bytes) -> npt.NDArray[Any]:
    """Return the elements of a TensorProto."""
    kind, shape, data, texts = 0, tuple[int, ...](), b"", list[str]()
    for number, value in fields(message):
        match number:
            case 1:
                kind = signed(value)
            case 2:
                shape = _shape(content(value))
            case 4:
                data = content(value)
            case 8:
                texts.append(content(value).decode())
    if kind in _TEXT:
        return np.array(texts, dtype=np.str_).reshape(shape or len(texts))
    if kind not in DTYPES:
        raise ValueError(f"its type {kind} is unknown")
    values = np.frombuffer(data, dtype=DTYPES[kind])
    if values.size != math.prod(shape):
        raise ValueError("its size does not match its shape")
    return values.reshape(shape)


def _shape(message: bytes) -> tuple[int, ...]:
    extents = []
    for number, value in fields(message):
        if number == 2:
            extents.append(next((signed(extent) for key, extent in fields(content(value)) if key == 1), 0))
    if min(extents, default=0) < 0:
        raise ValueError("it has a negative size")
    return tuple(extents)


def record_of(name: str, values: npt.NDArray[Any], *, step: int, time_ns: int, mode: int, mode_step: int) -> bytes:
    """Return the record of a tensor.

    Args:
        values: Numbers of any type that numpy has, or texts in one dimension.
        step: The global step.
        mode: smdebug's number of the mode.
    """
    plugins = b"".join(
        bytes_field(1, bytes_field(1, key.encode()) + bytes_field(2, str(value).encode()))
        for key, value in (("mode_step", mode_step), ("mode", mode))
    )
    value = bytes_field(1, name.encode()) + bytes_field(8, _tensor(name, values)) + bytes_field(9, plugins)
    event = _time(time_ns) + (integer_field(2, step) if step else b"") + bytes_field(5, bytes_field(1, value))
    return _framed(event, CONSTANT_CHECKSUM)


def version_record(time_ns: int) -> bytes:
    """Return the record with which a file for TensorBoard begins."""
    return _framed(_time(time_ns) + bytes_field(3, b"brain.Event:2"))


def scalar_record(tag: str, value: float, *, step: int, time_ns: int) -> bytes:
    """Return the record of a scalar for TensorBoard; it is a float32 there."""
    number = float_field(2, np.asarray(value, "<f4").tobytes())
    summary = bytes_field(1, bytes_field(1, tag.encode()) + number)
    return _framed(_time(time_ns) + integer_field(2, step) + bytes_field(5, summary))


def _framed(message: bytes, checksum: int | None = None) -> bytes:
    """Return the record of a message; its checksum is computed if it is not given."""
    length = _LENGTH.pack(len(message))
    foot = _FOOT.pack(masked_crc32c(message) if checksum is None else checksum)
    return length + _FOOT.pack(masked_crc32c(length)) + message + foot


def _time(time_ns: int) -> bytes:
    return double_field(1, time_ns / 10**9)


def _tensor(name: str, values: npt.NDArray[Any]) -> bytes:
    extents = b"".join(
        bytes_field(2, integer_field(1, size) + bytes_field(2, f"{name}_{size}".encode())) for size in values.shape
    )
    shape = bytes_field(2, extents)
    if values.dtype.kind == "U":
        return shape + b"".join(bytes_field(8, text.encode()) for text in values.ravel().tolist())
    numbers = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return integer_field(1, _NUMBERS[numbers.dtype.str.lstrip("<|")]) + shape + bytes_field(4, numbers.tobytes())
