"""The data of a channel: CSV, LIBSVM, Parquet or RecordIO of protobuf messages, the label first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pyarrow import ArrowException

from leadline.serve.algorithms.errors import UserError
from leadline.serve.algorithms.recordio import as_float32, read_records

_TYPES: Final = {
    "csv": "csv",
    "text/csv": "csv",
    "libsvm": "libsvm",
    "text/libsvm": "libsvm",
    "text/x-libsvm": "libsvm",
    "parquet": "parquet",
    "application/x-parquet": "parquet",
    "recordio-protobuf": "recordio-protobuf",
    "application/x-recordio-protobuf": "recordio-protobuf",
}
_DELIMITERS: Final = (",", "\t", ";", "|", " ")
_SHOWN: Final = 50
_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ChannelData:
    """The samples of a channel.

    Shape:
        features: ``(samples, features)``, dense or of ``scipy.sparse``; labels, weights: ``(samples,)``.
    """

    features: Any
    labels: _Array
    weights: _Array | None = None


def content_type(given: str | None) -> str:
    """Return the format of a ContentType: csv, libsvm, parquet or recordio-protobuf; without one it is libsvm.

    Raises:
        UserError: It is none of these.
    """
    name, *parameters = [part.strip().lower() for part in (given or "libsvm").split(";")]
    if name not in _TYPES:
        raise UserError(f"{given} is not an accepted ContentType: {', '.join(_TYPES)}.")
    size = next((part.partition("=")[2] for part in parameters if part.startswith("label_size=")), "1")
    if _TYPES[name] == "csv" and size != "1":
        raise UserError(f"{given} is not an accepted csv ContentType. Optional parameter label_size must be equal to 1")
    return _TYPES[name]


def read_channel(folder: str, kind: str, *, has_weights: bool = False) -> ChannelData | None:
    """Return the samples of a channel; None: it has no data.

    Args:
        kind: See ``content_type``.
        has_weights: Whether the second column of a CSV has the weights of the samples.
    Raises:
        UserError: A file is of another format.
    """
    parts = []
    for path in _data_files(folder):
        try:
            part = _READERS[kind](path)
        except (ValueError, OverflowError, OSError, ArrowException) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"Failed to load {kind} data of {os.path.basename(path)}: {reason}") from None
        parts.append(part)
    parts = [part for part in parts if part.features.shape[0]]
    if not parts:
        return None
    samples = _joined(parts)
    if has_weights and kind == "csv":
        features = samples.features
        if features.shape[1] < 2:
            raise UserError("csv_weights=1 needs a second column with the weights, and features behind it")
        return ChannelData(features[:, 1:], samples.labels, features[:, 0])
    return samples


def _data_files(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(parent, name) for name in sorted(names) if not name.startswith((".", "_")))


def _joined(parts: list[ChannelData]) -> ChannelData:
    if len(parts) == 1:
        return parts[0]
    labels = np.concatenate([part.labels for part in parts])
    weights = None
    if any(part.weights is not None for part in parts):
        ones = [np.ones(len(part.labels)) if part.weights is None else part.weights for part in parts]
        weights = np.concatenate(ones)
    columns = {part.features.shape[1] for part in parts}
    if isinstance(parts[0].features, np.ndarray):
        if len(columns) > 1:
            raise UserError(f"the files of a channel have different numbers of columns: {sorted(columns)}")
        return ChannelData(np.concatenate([part.features for part in parts]), labels, weights)
    from scipy.sparse import vstack

    for part in parts:
        part.features.resize(part.features.shape[0], max(columns))
    return ChannelData(vstack([part.features for part in parts], format="csr"), labels, weights)


def _first_column(table: _Array) -> ChannelData:
    if table.shape[1] < 2:
        raise UserError("there is one column only: the label must be first, and features behind it")
    return ChannelData(table[:, 1:], table[:, 0])


def _read_csv(path: str) -> ChannelData:
    from pyarrow import csv, float32

    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline().strip()
    if not first:
        return ChannelData(np.zeros((0, 1), np.float32), np.zeros(0, np.float32))
    delimiter = next((mark for mark in _DELIMITERS if mark in first), None)
    if delimiter is None:
        raise UserError(f"Could not determine delimiter on line {first[:_SHOWN]}")
    names = [str(number) for number in range(first.count(delimiter) + 1)]
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=names),
            parse_options=csv.ParseOptions(delimiter=delimiter),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, float32())),
        )
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"First line '{first[:_SHOWN]}...' of file '{os.path.basename(path)}': not a CSV of numbers with the label "
            f"first and no header: {reason}"
        ) from None
    return _first_column(np.column_stack([column.to_numpy() for column in table.columns]))


def _read_parquet(path: str) -> ChannelData:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return _first_column(np.column_stack([as_float32(column.to_numpy()) for column in table.columns]))


def _read_libsvm(path: str) -> ChannelData:
    """Read lines of ``label[:weight] [qid:group] index:value …``; the first index is 0, as XGBoost counts."""
    from scipy.sparse import csr_matrix

    labels: list[float] = []
    weights: list[float] = []
    ends, indices, values = [0], [], []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            first, *pairs = line.partition("#")[0].split() or ("",)
            if not first:
                continue
            try:
                label, colon, weight = first.partition(":")
                labels.append(float(label))
                weights.append(float(weight) if colon else 1.0)
                split = [pair.split(":") for pair in pairs]
                indices.append(np.array([int(index) for index, _ in split], np.int64))
                values.append(as_float32([float(value) for _, value in split]))
            except ValueError:
                raise UserError(
                    f"First line '{line.strip()[:_SHOWN]}...' of file '{os.path.basename(path)}' is not 'LIBSVM' "
                    "format. Please ensure the file is in 'LIBSVM' format."
                ) from None
            ends.append(ends[-1] + len(pairs))
    columns = np.concatenate(indices) if indices else np.zeros(0, np.int64)
    shape = (len(labels), int(columns.max()) + 1 if len(columns) else 1)
    features = csr_matrix((np.concatenate(values) if values else [], columns, ends), shape, np.float32)
    given = as_float32(weights)
    return ChannelData(features, as_float32(labels), None if (given == 1).all() else given)


def _read_recordio(path: str) -> ChannelData:
    features, labels = read_records(path)
    return ChannelData(features, labels)


_READERS: Final = {
    "csv": _read_csv,
    "libsvm": _read_libsvm,
    "parquet": _read_parquet,
    "recordio-protobuf": _read_recordio,
}
