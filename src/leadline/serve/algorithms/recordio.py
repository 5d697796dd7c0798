"""RecordIO files of protobuf messages, as SageMaker's SDK writes them: ``aialgs.data.Record``."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.formats.protobuf import Value, fields, packed_integers, signed, submessage

_MAGIC: Final = 0xCED7230A
_LENGTH: Final = (1 << 29) - 1
_FEATURES, _LABEL = 1, 2
_TENSORS: Final = {2: "<f4", 3: "<f8", 7: None}
"""The fields of a value that are tensors, by the type of their packed values; None: variable-length integers."""
_VALUES, _KEYS, _SHAPE = 1, 2, 3
_Array = npt.NDArray[Any]


def read_records(path: str) -> tuple[Any, _Array]:
    """Return the features of all records, dense or sparse, and their labels.

    Raises:
        ValueError: The file is damaged, or a record has no label.
    """
    rows: list[_Tensor] = []
    labels: list[float] = []
    with open(path, "rb") as file:
        content = file.read()
    for record in _frames(content):
        parts = {_FEATURES: _Tensor(), _LABEL: _Tensor()}
        for number, entry in fields(record):
            if number in parts:
                for kind, value in fields(submessage(dict(fields(submessage(entry))).get(2, b""))):
                    if kind in _TENSORS:
                        parts[number] = _tensor(value, _TENSORS[kind])
        if not len(parts[_LABEL].values):
            raise ValueError(f"record {len(rows) + 1} has no label")
        rows.append(parts[_FEATURES])
        labels.append(parts[_LABEL].values[0])
    return _matrix(rows), as_float32(labels)


def as_float32(values: Any) -> _Array:
    """Return numbers as XGBoost takes them; beyond the range of float32 they are infinite, which XGBoost refuses."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)


class _Tensor:
    """Values of a tensor; keys are their places, where it is sparse."""

    def __init__(self) -> None:
        self.values: _Array = np.zeros(0, np.float32)
        self.keys: _Array | None = None
        self.size = 0


def _matrix(rows: list[_Tensor]) -> Any:
    if all(row.keys is None for row in rows):
        sizes = {len(row.values) for row in rows}
        if len(sizes) > 1:
            raise ValueError(f"records have different numbers of features: {sorted(sizes)}")
        return as_float32([row.values for row in rows]).reshape(len(rows), -1)
    from scipy.sparse import csr_matrix

    keys = [np.arange(len(row.values)) if row.keys is None else row.keys for row in rows]
    ends = np.concatenate([[0], np.cumsum([len(row.values) for row in rows])])
    columns = np.concatenate(keys).astype(np.int64)
    width = max(*(row.size for row in rows), int(columns.max()) + 1 if len(columns) else 1)
    values = as_float32(np.concatenate([row.values for row in rows]))
    return csr_matrix((values, columns, ends), (len(rows), width))


def _frames(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        if len(content) < at + 8:
            raise ValueError(f"the file ends within a record at byte {at:,}")
        magic, head = struct.unpack_from("<II", content, at)
        length = head & _LENGTH
        if magic != _MAGIC or head >> 29 or at + 8 + length > len(content):
            raise ValueError(f"no RecordIO record at byte {at:,}")
        yield content[at + 8 : at + 8 + length]
        at += 8 + (length + 3) // 4 * 4


def _tensor(message: Value, kind: str | None) -> _Tensor:
    """Read a tensor, whose numbers are packed or single."""
    found: dict[int, list[_Array]] = {_VALUES: [], _KEYS: [], _SHAPE: []}
    for number, value in fields(submessage(message)):
        if number not in found:
            continue
        if number == _VALUES and kind is not None:
            found[number].append(np.frombuffer(submessage(value), kind))
        elif isinstance(value, int):
            found[number].append(np.array([signed(value)]))
        else:
            found[number].append(np.array(list(packed_integers(value)), np.int64))
    tensor = _Tensor()
    tensor.values = np.concatenate(found[_VALUES]) if found[_VALUES] else tensor.values
    tensor.keys = np.concatenate(found[_KEYS]) if found[_KEYS] else None
    tensor.size = int(np.prod(np.concatenate(found[_SHAPE]))) if found[_SHAPE] else len(tensor.values)
    return tensor
