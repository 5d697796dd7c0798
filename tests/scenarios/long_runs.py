"""Fast generation of long runs: hours of samples, steps and statistics, in the format of the real writers."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.records.metric import Channel
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store import codec, layout
from leadline.store.codec import BatchEncoder, TableSchema
from leadline.store.documents import make_folder
from leadline.testing.runs import SECOND_NS, START_NS, RunWriter

_SEGMENT_BYTES: Final = 64 << 20
_BLOCK_BATCHES: Final = 2048
_STATISTICS: Final = ("min", "max", "mean", "l2", "abs_mean", "zero_ratio", "nonfinite_count")
Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Day:
    """The contents of a long run."""

    hours: float = 24.0
    cores: int = 64
    gpus: int = 8
    interval_ms: int = 500
    steps: int = 1_000_000
    tensors: int = 500
    every: int = 50
    """The capture interval of tensor statistics, in steps."""
    steps_a_flush: int = 3
    worker: str = "rank0-1"
    node: str = "node"
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        return int(self.hours * 3600_000 / self.interval_ms)

    @property
    def step_ns(self) -> int:
        return int(self.hours * 3600 * SECOND_NS / self.steps)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The system metrics."""
        cores = [Channel("cpu", f"core{index}", "utilization_percent") for index in range(self.cores)]
        devices = [
            Channel("gpu", f"gpu{index}", metric)
            for index in range(self.gpus)
            for metric in (
                "utilization_percent",
                "memory_used_percent",
                "memory_used_bytes",
                "power_watts",
                "temperature_celsius",
                "sm_clock_mhz",
            )
        ]
        others = [
            Channel("cpu", "total", "utilization_percent"),
            Channel("cpu", "total", "iowait_percent"),
            Channel("memory", "total", "used_percent"),
            Channel("memory", "total", "used_bytes"),
            Channel("disk", "/", "used_percent"),
            Channel("disk", "total", "read_bytes_per_second"),
            Channel("disk", "total", "write_bytes_per_second"),
            Channel("network", "total", "received_bytes_per_second"),
            Channel("network", "total", "sent_bytes_per_second"),
            Channel("process", "job", "cpu_percent"),
            Channel("process", "job", "rss_bytes"),
        ]
        return (*cores, *devices, *others)


def write_day(path: str | os.PathLike[str], day: Day, *, is_over: bool = True) -> str:
    """Write a run and return its folder."""
    writer = RunWriter(path)
    writer.write_worker(
        day.worker,
        state="ended" if is_over else "running",
        steps={"train": day.steps},
        step=day.steps - 1,
        losses={"loss": 0.5},
        time_ns=_end_ns(day),
    )
    writer.write_node(day.node, cpu_count=day.cores)
    write_system(writer.path, day)
    write_timeline(writer.path, day)
    write_series(writer.path, day)
    if is_over:
        writer.set_status("Completed", exit_status=0, ended_ns=_end_ns(day))
    return writer.path


def _end_ns(day: Day) -> int:
    return START_NS + int(day.hours * 3600 * SECOND_NS)


def write_system(run: str, day: Day) -> None:
    """Write one batch per sample, as the monitor does."""
    channels, chance = day.channels, np.random.default_rng(1)
    count = len(channels)
    stream = _Stream(run, layout.SYSTEM, day.node, codec.SYSTEM, codec.system_metadata(channels))
    level = chance.uniform(20, 80, count)
    for first, last in _blocks(day.samples):
        times = START_NS + np.arange(first + 1, last + 1) * day.interval_ms * (SECOND_NS // 1000)
        wave = 15 * np.sin(np.arange(first, last)[:, None] / 5000 + np.arange(count))
        values = np.clip(level + wave + chance.normal(0, 4, (last - first, count)), 0, 100)
        stream.write(
            count,
            {
                "time_ns": np.repeat(times[:, None], count, axis=1),
                "channel": np.tile(np.arange(count), (last - first, 1)),
                "value": values,
            },
        )
    stream.close()


def write_timeline(run: str, day: Day) -> None:
    """Write one batch per flush: its steps, then the data, forward, backward and optimizer phases of each step."""
    chance, many = np.random.default_rng(2), day.steps_a_flush
    names = ("step", "data", "forward", "backward", "optimizer")
    texts = {
        "name": [name for name in names for _ in range(many)],
        "phase": ["train"] * (len(names) * many),
        "args": ['{"own_ns":20000}' if name == "step" else "{}" for name in names for _ in range(many)],
    }
    stream = _Stream(run, layout.TIMELINE, day.worker, codec.TIMELINE, {}, texts)
    for first, last in _blocks(day.steps // many):
        numbers = np.arange(first * many, last * many).reshape(-1, many)
        began = START_NS + numbers * day.step_ns
        share = np.array([0.1, 0.3, 0.4, 0.1])
        took = (day.step_ns * share[:, None, None] * chance.uniform(0.6, 1.0, (4, *numbers.shape))).astype(np.int64)
        is_slow = chance.random(numbers.shape) < 0.0005
        starts = np.stack([began, *(began + (day.step_ns * at).astype(np.int64) for at in share.cumsum() - share)])
        lengths = np.stack([np.where(is_slow, 4, 1) * np.full(numbers.shape, day.step_ns), *took])
        flat = {
            "step": np.tile(numbers, (1, len(names))),
            "start_ns": _in_rows(starts),
            "duration_ns": _in_rows(lengths),
        }
        stream.write(len(names) * many, {**flat, "thread": np.full(flat["step"].shape, 7)})
    stream.close()


def write_series(run: str, day: Day) -> None:
    """Write losses at every step and tensor statistics at an interval; each kind of row has its own segments."""
    loss = TensorInfo("loss", ("losses", "scalars"), (), "float32")
    half = day.tensors // 2
    tensors = [TensorInfo(f"layers.{index}.weight", ("weights",), (256, 256)) for index in range(half)]
    tensors += [TensorInfo(f"gradient/layers.{index}.weight", ("gradients",), (256, 256)) for index in range(half)]
    wide = SeriesLayout((loss, *tensors), ((0, "value"), *_columns(len(tensors))))
    narrow = SeriesLayout((loss,), ((0, "value"),))
    sequence = _Sequence()
    for series_layout, step_lists in ((narrow, _plain_steps(day)), (wide, _captured_steps(day))):
        _write_layout(run, day, series_layout, step_lists, sequence)


def _write_layout(
    run: str, day: Day, series_layout: SeriesLayout, flushes: Iterator[npt.NDArray[Any]], sequence: _Sequence
) -> None:
    width, chance = len(series_layout.columns), np.random.default_rng(3)
    metadata, streams = codec.series_metadata(series_layout), {}
    scale = chance.uniform(0.1, 2, width)
    for steps in flushes:
        many = steps.shape[1]
        if many not in streams:
            schema, texts = codec.series_schema(width), {"mode": ["train"] * many}
            streams[many] = _Stream(run, layout.SERIES, day.worker, schema, metadata, texts, sequence)
        values = scale / (1 + steps[..., None] / day.steps * 3) + chance.normal(0, 0.01, (*steps.shape, width))
        streams[many].write(
            many,
            {
                "complete_step": np.repeat(steps[:, -1:], many, axis=1),
                "step": steps,
                "mode_step": steps,
                "time_ns": START_NS + (steps + 1) * day.step_ns,
                "values": values.reshape(len(steps), -1),
            },
        )
    for stream in streams.values():
        stream.close()


def _columns(tensors: int) -> list[tuple[int, str]]:
    return [(index + 1, statistic) for index in range(tensors) for statistic in _STATISTICS]


def _plain_steps(day: Day) -> Iterator[npt.NDArray[Any]]:
    """Yield the steps at which only losses were captured, by flush: ``(flushes, steps per flush)``."""
    many = day.steps_a_flush
    for first, last in _blocks(day.steps, _BLOCK_BATCHES * many):
        steps = np.arange(first, last)
        steps = steps[steps % day.every != 0]
        whole = len(steps) // many * many
        yield steps[:whole].reshape(-1, many)
        if whole < len(steps):
            yield steps[whole:].reshape(1, -1)


def _captured_steps(day: Day) -> Iterator[npt.NDArray[Any]]:
    rows = max(1, min(64, (16 << 20) // (8 * (day.tensors * len(_STATISTICS) + 1))))
    steps = np.arange(0, day.steps, day.every).reshape(-1, 1)
    for first, last in _blocks(len(steps), rows):
        yield steps[first:last]


def _blocks(count: int, size: int = _BLOCK_BATCHES) -> Iterator[tuple[int, int]]:
    for first in range(0, count, size):
        yield first, min(first + size, count)


def _in_rows(parts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Reshape ``(parts, batches, steps)`` to ``(batches, parts * steps)``."""
    rows: npt.NDArray[Any] = parts.transpose(1, 0, 2).reshape(parts.shape[1], -1)
    return rows


@dataclass(slots=True)
class _Sequence:
    """Numbers the batches of a stream over all its segments."""

    next: int = 0


class _Stream:
    """Writes many batches of the same shape at a time: a message of the codec with other numbers filled in."""

    def __init__(
        self,
        run: str,
        part: str,
        stream: str,
        schema: TableSchema,
        metadata: Mapping[str, str],
        texts: Mapping[str, Sequence[str]] | None = None,
        sequence: _Sequence | None = None,
    ) -> None:
        self._run, self._part, self._stream = run, part, stream
        self._schema, self._metadata, self._texts = schema, {"stream": stream, **metadata}, dict(texts or {})
        self._sequence = sequence or _Sequence()
        self._descriptor, self._bytes = -1, 0
        self._form: _BatchTemplate | None = None

    def write(self, rows: int, columns: Columns) -> None:
        """Append batches; a column is ``(batches, rows)``, a series' values ``(batches, rows * width)``."""
        batches = len(next(iter(columns.values())))
        if not batches:
            return
        form = self._form = self._form or _BatchTemplate(self._schema, self._metadata, self._texts, rows)
        if self._descriptor < 0 or self._bytes > _SEGMENT_BYTES:
            self._open(form.head)
        data = form.messages(self._sequence.next, batches, columns)
        self._sequence.next += batches
        self._bytes += data.nbytes
        os.write(self._descriptor, data.data)

    def close(self) -> None:
        """Close the segment."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _open(self, head: bytes) -> None:
        self.close()
        make_folder(os.path.join(self._run, self._part, self._stream))
        ordinal = 1 + len(os.listdir(os.path.join(self._run, self._part, self._stream)))
        path = os.path.join(self._run, layout.segment(self._part, self._stream, ordinal, is_compressed=False))
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(self._descriptor, head)
        self._bytes = len(head)


class _BatchTemplate:
    """The bytes of a batch with a given number of rows, and the offset of each column."""

    def __init__(
        self, schema: TableSchema, metadata: Mapping[str, str], texts: Mapping[str, Sequence[str]], rows: int
    ) -> None:
        encoder = BatchEncoder(schema, metadata)
        self._columns, self._rows, self._width = schema.columns, rows, schema.width
        self._texts = {name: codec.utf8_buffers(text) for name, text in texts.items()}
        marks = {name: self._mark(place, name, kind) for place, (name, kind) in enumerate(schema.columns)}
        both = encoder.encode(1, rows, {**marks, **texts})
        self._message = encoder.encode(_MARKED, rows, {**marks, **texts})
        self.head = both[: len(both) - len(self._message)]
        self._sequence_at = self._message.index(codec.int64_buffer([_MARKED] * rows))
        self._crc_at = self._message.index(codec.int64_buffer([self._crc(marks)] * rows))
        self._places = {name: self._message.rindex(bytes(mark)) for name, mark in marks.items() if mark}

    def messages(self, sequence: int, batches: int, columns: Columns) -> npt.NDArray[np.uint8]:
        """``(batches, bytes)``."""
        messages = np.tile(np.frombuffer(self._message, np.uint8), (batches, 1))
        numbers = np.arange(sequence, sequence + batches, dtype="<i8")
        checked = [numbers.view(np.uint8).reshape(batches, 8)]
        for name, kind in self._columns:
            if kind == "utf8":
                both = np.frombuffer(b"".join(self._texts[name]), np.uint8)
                checked.append(np.broadcast_to(both, (batches, len(both))))
                continue
            dtype = "<i8" if kind == "int64" else "<f8"
            data = np.ascontiguousarray(columns[name], dtype).view(np.uint8).reshape(batches, -1)
            checked.append(data)
            messages[:, self._places[name] : self._places[name] + data.shape[1]] = data
        crcs = np.array([zlib.crc32(row) for row in np.concatenate(checked, axis=1)], "<i8")
        for at, stamps in ((self._sequence_at, numbers), (self._crc_at, crcs)):
            stamped = np.repeat(stamps, self._rows).view(np.uint8).reshape(batches, -1)
            messages[:, at : at + stamped.shape[1]] = stamped
        return messages

    def _mark(self, place: int, name: str, kind: str) -> bytes:
        """Return a buffer that differs from all others."""
        if kind == "utf8":
            return b""
        count = self._rows * (self._width if kind == "float64[]" else 1)
        return codec.int64_buffer([_MARKED + 1 + place] * count)

    def _crc(self, marks: Mapping[str, bytes]) -> int:
        buffers: list[bytes] = []
        for name, kind in self._columns:
            buffers += list(self._texts[name]) if kind == "utf8" else [marks[name]]
        return codec.checksum(_MARKED, buffers)


_MARKED: Final = 0x5EA5_0000_0000_1000
