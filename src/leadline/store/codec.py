"""Encoding of Arrow segments: schemas, batches, checksums, and the rows of the timeline."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, Literal

from leadline.records.metric import Channel
from leadline.records.names import MODES
from leadline.records.phases import HAS_READY, HEAD, NESTED, ON_DEVICE, PHASE_FIELDS, ROW, STEP, STEP_PHASES
from leadline.records.series import SeriesLayout, Shard, TensorInfo
from leadline.store.layout import valid_name

FORMAT: Final = 1
METADATA_PREFIX: Final = "leadline."

ColumnType = Literal["int64", "float64", "utf8", "float64[]"]
"""``float64[]`` is a fixed-size list of the schema's width."""

Buffer = bytes | bytearray | memoryview
Columns = dict[str, Buffer | Sequence[str]]
"""The columns of a batch: buffers of numbers, and texts."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a segment, preceded by ``sequence`` and ``crc32``, the same in every row of a batch.

    ``sequence`` counts the batches of a stream (all segments of a worker or node) from 0 without a gap;
    ``crc32`` covers the sequence as eight bytes and then the data buffers of the other columns in order (for utf8:
    int32 offsets, then the bytes), so that a batch in the wrong position is detected too.
    """

    kind: str
    columns: tuple[tuple[str, ColumnType], ...]
    width: int = 0
    """Width of the ``float64[]`` column."""


SERIES_COLUMNS: Final[tuple[tuple[str, ColumnType], ...]] = (
    ("complete_step", "int64"),
    ("step", "int64"),
    ("mode", "utf8"),
    ("mode_step", "int64"),
    ("time_ns", "int64"),
    ("values", "float64[]"),
)
"""``complete_step``: with this batch and those before it, the data are complete up to this global step."""

SYSTEM: Final = TableSchema("system", (("time_ns", "int64"), ("channel", "int64"), ("value", "float64")))
"""``channel`` indexes the schema metadata's ``leadline.channels``."""

TIMELINE: Final = TableSchema(
    "timeline",
    (
        ("name", "utf8"),
        ("phase", "utf8"),
        ("step", "int64"),
        ("start_ns", "int64"),
        ("duration_ns", "int64"),
        ("thread", "int64"),
        ("args", "utf8"),
    ),
)
"""``args`` is a JSON object."""

_SLICE: Final[tuple[tuple[str, ColumnType], ...]] = (
    ("step", "int64"),
    ("mode", "utf8"),
    ("phase", "utf8"),
    ("start_ns", "int64"),
    ("end_ns", "int64"),
)
_TIMES: Final[tuple[tuple[str, ColumnType], ...]] = (
    ("calls", "int64"),
    ("primitive_calls", "int64"),
    ("own_ns", "int64"),
    ("cumulative_ns", "int64"),
)
_FUNCTION: Final[tuple[tuple[str, ColumnType], ...]] = (("function", "utf8"), ("file", "utf8"), ("line", "int64"))
_CALLER: Final[tuple[tuple[str, ColumnType], ...]] = (
    ("caller_function", "utf8"),
    ("caller_file", "utf8"),
    ("caller_line", "int64"),
)

FUNCTIONS: Final = TableSchema("functions", (*_SLICE, *_FUNCTION, *_TIMES))
"""cProfile's statistics of each function, by phase of a step (-1: start or end of the process)."""
CALLS: Final = TableSchema("calls", (*_SLICE, *_CALLER, *_FUNCTION, *_TIMES))
"""The same statistics by caller and function."""

LOADING: Final = TableSchema(
    "loading",
    (
        ("event", "utf8"),
        ("step", "int64"),
        ("worker_id", "int64"),
        ("num_workers", "int64"),
        ("start_ns", "int64"),
        ("duration_ns", "int64"),
        ("bytes", "int64"),
        ("batch_size", "int64"),
        ("ready", "int64"),
        ("pid", "int64"),
    ),
)
"""``event`` is ``fetch`` (loading a batch, in a loader worker or the training process), ``wait`` (the training waits
for a batch) or ``make_iterator``; -1 means unknown."""


def series_schema(width: int) -> TableSchema:
    """Return the schema of a series whose rows have ``width`` values."""
    return TableSchema("series", SERIES_COLUMNS, width)


def series_metadata(layout: SeriesLayout) -> dict[str, str]:
    """Return the metadata that describe the values of a series."""
    return {
        "tensors": json.dumps([tensor_fields(tensor) for tensor in layout.tensors]),
        "columns": json.dumps(layout.columns),
    }


def tensor_fields(tensor: TensorInfo) -> list[Any]:
    """Return a tensor as metadata describe it: name, collections, shape, type; of a shard also its offset and shape."""
    shard = [] if tensor.shard is None else [[tensor.shard.offset, tensor.shard.shape]]
    return [tensor.name, tensor.collections, tensor.shape, tensor.dtype, *shard]


def parse_tensor_fields(fields: Sequence[Any]) -> TensorInfo:
    """Return the tensor from ``tensor_fields``."""
    name, collections, shape, dtype, *shard = fields
    parts = [Shard(tuple(offset), tuple(part)) for offset, part in shard]
    return TensorInfo(valid_name(name), tuple(collections), tuple(shape), dtype, next(iter(parts), None))


def parse_series_metadata(metadata: Mapping[str, str]) -> SeriesLayout:
    """Return the layout from ``series_metadata``; equal texts give the identical layout."""
    return _series_layout(metadata["tensors"], metadata["columns"])


@lru_cache(maxsize=128)
def _series_layout(tensors: str, columns: str) -> SeriesLayout:
    """Parse a layout; cached, since all segments of a model's trainings have one of a few layouts."""
    return SeriesLayout(
        tensors=tuple(map(parse_tensor_fields, json.loads(tensors))),
        columns=tuple((index, statistic) for index, statistic in json.loads(columns)),
    )


def system_metadata(channels: Sequence[Channel]) -> dict[str, str]:
    """Return the metadata that describe the channels of a system segment."""
    return {"channels": json.dumps([[channel.kind, channel.device, channel.metric] for channel in channels])}


def parse_system_metadata(metadata: Mapping[str, str]) -> tuple[Channel, ...]:
    """Return the channels from ``system_metadata``."""
    return tuple(Channel(*fields) for fields in json.loads(metadata["channels"]))


def int64_buffer(values: Sequence[int]) -> bytes:
    """Encode as little-endian int64."""
    return struct.pack(f"<{len(values)}q", *values)


def float64_buffer(values: Sequence[float]) -> bytes:
    """Encode as little-endian float64."""
    return struct.pack(f"<{len(values)}d", *values)


def utf8_buffers(values: Sequence[str]) -> tuple[bytes, bytes]:
    """Encode as offsets (int32, one more than values) and bytes."""
    encoded = [value.encode(errors="backslashreplace") for value in values]
    offsets = accumulate(map(len, encoded), initial=0)
    return struct.pack(f"<{len(encoded) + 1}i", *offsets), b"".join(encoded)


def checksum(sequence: int, buffers: Sequence[Buffer]) -> int:
    """Return the crc32 of a batch: its sequence number, then its data buffers in order."""
    crc = zlib.crc32(struct.pack("<q", sequence))
    for buffer in buffers:
        crc = zlib.crc32(buffer, crc)
    return crc


def metadata_checksum(metadata: Mapping[str, str]) -> int:
    """Return the crc32 of a segment's metadata (without its own), so that a flipped bit in a name is detected."""
    entries = sorted((key, value) for key, value in metadata.items() if key != "crc32")
    return zlib.crc32(json.dumps(entries).encode())


def message_end(data: bytes) -> int:
    """Return where the first message ends, which has no body: a schema."""
    return 8 + int.from_bytes(data[4:8], "little")


def load() -> None:
    """Import the encoder in this thread: forking while another thread imports would leave the child half a module."""
    from nanoarrow import ipc

    assert ipc


class BatchEncoder:
    """Encodes columns as an Arrow IPC stream, schema first; used by one thread."""

    def __init__(self, schema: TableSchema, metadata: Mapping[str, str]) -> None:
        import nanoarrow as na
        from nanoarrow import ipc

        self._na = na
        self.schema = schema
        types: dict[str, object] = {"int64": na.int64(), "float64": na.float64(), "utf8": na.string()}
        types["float64[]"] = na.fixed_size_list(na.float64(), schema.width)
        self._types = {kind: na.c_schema(type_) for kind, type_ in types.items()}
        fields = {"sequence": types["int64"], "crc32": types["int64"]}
        fields |= {name: types[kind] for name, kind in schema.columns}
        entries = {"format": str(FORMAT), "kind": schema.kind, **metadata}
        entries["crc32"] = str(metadata_checksum(entries))
        self._schema = na.c_schema(na.struct(fields)).modify(
            metadata={METADATA_PREFIX + key: value for key, value in entries.items()}
        )
        self._sink = _Sink()
        self._stream = ipc.StreamWriter.from_writable(self._sink)

    def encode(self, sequence: int, rows: int, columns: Mapping[str, Buffer | Sequence[str]]) -> bytes:
        """Return the bytes of one batch, preceded by the schema if it is the first.

        Args:
            columns: For each column its little-endian buffer, or for utf8 the strings.
        """
        children, checked = [], []
        for name, kind in self.schema.columns:
            child, buffers = self._column(kind, rows, columns[name])
            children.append(child)
            checked.extend(buffers)
        prefix = [
            self._array("int64", rows, [None, int64_buffer([value] * rows)])
            for value in (sequence, checksum(sequence, checked))
        ]
        self._stream.write_array(self._na.c_array_from_buffers(self._schema, rows, [None], children=prefix + children))
        return self._sink.take()

    def _column(self, kind: ColumnType, rows: int, values: Any) -> tuple[Any, list[Buffer]]:
        if kind == "utf8":
            offsets, data = utf8_buffers(values)
            return self._array("utf8", rows, [None, offsets, data]), [offsets, data]
        if kind == "float64[]":
            items = self._array("float64", rows * self.schema.width, [None, values])
            return self._array(kind, rows, [None], children=[items]), [values]
        return self._array(kind, rows, [None, values]), [values]

    def _array(self, kind: str, length: int, buffers: list[Any], children: Sequence[Any] = ()) -> Any:
        return self._na.c_array_from_buffers(self._types[kind], length, buffers, children=children)


class _Sink:
    """A writable buffer that is emptied by ``take``."""

    closed = False

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: Buffer) -> int:
        self._data += data
        return len(data)

    def take(self) -> bytes:
        data, self._data = bytes(self._data), bytearray()
        return data

    def writable(self) -> bool:
        return True

    def flush(self) -> None: ...

    def close(self) -> None: ...


# --- rows of the timeline from packed steps ------------------------------------------------------------------

_WIDTH: Final = ROW.size // 8
_NO_ARGS: Final = "{}"
_CLOCK: Final = ',"clock":"device"'
_IN_ARGS: Final = ("own_ns", "every", "nesting", "ready_ns", "run_delay_ns", "mode_step")


def phase_columns(rows: Sequence[bytes], offset_ns: int) -> tuple[int, Columns]:
    """Return the columns of ``TIMELINE`` for some steps: phase by phase, each with its steps in order.

    Args:
        rows: Steps packed as ``records.phases.ROW``.
        offset_ns: Wall clock minus ``time.perf_counter_ns``.
    Returns:
        The number of rows, and the columns.
    """
    flat = struct.unpack(f"<{_WIDTH * len(rows)}q", b"".join(rows))
    head = {name: flat[index::_WIDTH] for index, name in enumerate(HEAD)}
    modes = [MODES[index] for index in head["mode"]]
    fields = len(PHASE_FIELDS)
    phases = {
        name: [flat[len(HEAD) + fields * index + at :: _WIDTH] for at in range(fields)]
        for index, name in enumerate(STEP_PHASES)
    }
    parts = [(STEP, head["start_ns"], head["duration_ns"], list(range(len(rows))), _step_args(head, phases))]
    for name, (starts, durations, counts, _) in phases.items():
        present = [at for at, count in enumerate(counts) if count]
        args = [_args(name, counts[at], head["nesting"][at]) for at in present]
        parts.append((name, starts, durations, present, args))
    names: list[str] = []
    columns: dict[str, list[Any]] = {name: [] for name in ("phase", "step", "start", "duration", "thread", "args")}
    for name, starts, durations, present, args in parts:
        names += [name] * len(present)
        columns["phase"] += [modes[at] for at in present]
        columns["step"] += [head["step"][at] for at in present]
        columns["start"] += [starts[at] + offset_ns for at in present]
        columns["duration"] += [durations[at] for at in present]
        columns["thread"] += [head["thread"][at] for at in present]
        columns["args"] += args
    return len(names), {
        "name": names,
        "phase": columns["phase"],
        "step": int64_buffer(columns["step"]),
        "start_ns": int64_buffer(columns["start"]),
        "duration_ns": int64_buffer(columns["duration"]),
        "thread": int64_buffer(columns["thread"]),
        "args": columns["args"],
    }


def _step_args(head: Mapping[str, Sequence[int]], phases: Mapping[str, Sequence[Sequence[int]]]) -> list[str]:
    values = zip(*(head[name] for name in _IN_ARGS), strict=True)
    return [
        f'{{"own_ns":{own}{f",{_every(every)}" if every > 1 else ""}{_CLOCK if nesting & ON_DEVICE else ""}'
        f"{_thread_totals(ready, delay)}{_ready(phases, at, delay) if nesting & HAS_READY else ''}{_mode_step(step)}}}"
        for at, (own, every, nesting, ready, delay, step) in enumerate(values)
    ]


def _mode_step(step: int) -> str:
    return f',"mode_step":{step}' if step >= 0 else ""


def _thread_totals(ready_ns: int, run_delay_ns: int) -> str:
    return f',"ready_ns":{ready_ns},"run_delay_ns":{run_delay_ns}' if run_delay_ns >= 0 else ""


def _ready(phases: Mapping[str, Sequence[Sequence[int]]], at: int, run_delay_ns: int) -> str:
    """Return the ready time of each phase of a step, for its args; its processor time if the run delay is unknown."""
    unit = "ready_ns" if run_delay_ns >= 0 else "cpu_ns"
    return "".join(f',"{name}_{unit}":{ready[at]}' for name, (_, _, counts, ready) in phases.items() if counts[at])


def _every(every: int) -> str:
    return f'"every":{every}'


def _args(name: str, count: int, nesting: int) -> str:
    if count == 1 and not nesting:
        return _NO_ARGS
    entries = [f'"count":{count}'] if count > 1 else []
    entries += [f'"within":"{outer}"' for bit, (inner, outer) in NESTED.items() if nesting & bit and inner == name]
    return f"{{{','.join(entries)}}}"
