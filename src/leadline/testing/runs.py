"""Synthetic runs, written through the real store, at once or step by step."""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from leadline.records.event import Event
from leadline.records.manifest import ActionSpec, Manifest, RuleSpec
from leadline.records.metric import Channel
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store import codec, layout
from leadline.store.documents import make_folder, write_document
from leadline.store.segments import Segment, SegmentFolder

SECOND_NS = 1_000_000_000
START_NS = 1_795_000_000 * SECOND_NS
HEARTBEAT = Channel("cpu", "total", "utilization_percent")

Values = Mapping[str, Mapping[str, float]]
"""Statistics by tensor name: ``{"loss": {"value": 0.5}}``."""


@dataclass(frozen=True, slots=True)
class Capture:
    """What one worker captured at one step into one column layout; without values: a heartbeat of the writer."""

    step: int
    values: Values = field(default_factory=dict)
    worker: str = "rank0-1"
    mode: str = "train"
    mode_step: int | None = None
    """None: the global step."""
    time_ns: int | None = None
    """None: a tenth of a second a step after ``START_NS``."""
    infos: Mapping[str, TensorInfo] = field(default_factory=dict)
    """What is known of tensors beyond what their names say: collections, shape, type."""

    def info(self, name: str, shapes: Mapping[str, tuple[int, ...]]) -> TensorInfo:
        """A tensor as the series names it."""
        return self.infos.get(name) or TensorInfo(name, collections_of(name), shapes.get(name, ()))

    @property
    def at_ns(self) -> int:
        return START_NS + self.step * SECOND_NS // 10 if self.time_ns is None else self.time_ns


@dataclass(frozen=True, slots=True)
class Raw:
    """Tensors that a worker stored at one step: name to (dtype, shape, bytes), as safetensors has them."""

    step: int
    tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]
    worker: str = "rank0-1"
    mode: str = "train"


@dataclass(frozen=True, slots=True)
class Vectors:
    """Statistics that are arrays, of tensors that a worker captured at one step."""

    step: int
    values: Mapping[str, Mapping[str, Any]]
    """Arrays by tensor name and statistic: ``{"relu_output_0": {"unit_activity": [0.1, 0.9]}}``."""
    worker: str = "rank0-1"
    mode: str = "train"
    mode_step: int | None = None
    infos: Mapping[str, TensorInfo] = field(default_factory=dict)
    """As in ``Capture``."""

    @property
    def capture(self) -> Capture:
        """The row that goes with them, which tells what the tensors are."""
        rows = {name: {"nonfinite_count": 0.0} for name in self.values}
        return Capture(self.step, rows, self.worker, self.mode, self.mode_step, infos=self.infos)

    @property
    def raw(self) -> Raw:
        """How they are stored."""
        arrays = {
            layout.vector_name(name, statistic): np.asarray(values, dtype="<f8")
            for name, each in self.values.items()
            for statistic, values in each.items()
        }
        tensors = {name: ("F64", tuple(values.shape), values.tobytes()) for name, values in arrays.items()}
        return Raw(self.step, tensors, self.worker, self.mode)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One system sample of a node."""

    time_ns: int
    value: float = 50.0
    channel: Channel = HEARTBEAT
    node: str = "node"


@dataclass(frozen=True, slots=True)
class Happening:
    """An event of a worker's timeline."""

    event: Event
    worker: str = "rank0-1"


@dataclass(frozen=True, slots=True)
class Detailed:
    """A detailed profiling window of a worker, with its trace as torch.profiler writes it."""

    id: str
    first_step: int
    start_ns: int
    calls: Sequence[tuple[str, float, float]]
    """Operators with begin and length in milliseconds, the begin counted from that of the window."""
    steps: int = 1
    step_ms: float = 100.0
    worker: str = "rank0-1"
    written_ns: int | None = None
    """When it was whole; None: a tenth of a second after its end."""

    @property
    def end_ns(self) -> int:
        return self.start_ns + round(self.steps * self.step_ms * 1e6)

    @property
    def whole_ns(self) -> int:
        return self.end_ns + SECOND_NS // 10 if self.written_ns is None else self.written_ns

    @property
    def trace(self) -> dict[str, Any]:
        """As torch.profiler writes it."""
        events = [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": name,
                "pid": 1,
                "tid": 1,
                "ts": begin * 1e3,
                "dur": length * 1e3,
                "args": {"External id": place},
            }
            for place, (name, begin, length) in enumerate(self.calls)
        ]
        return {"baseTimeNanoseconds": self.start_ns, "traceEvents": events}

    @property
    def step_list(self) -> list[dict[str, Any]]:
        """Which step was when."""
        edges = [self.start_ns + round(each * self.step_ms * 1e6) for each in range(self.steps + 1)]
        return [
            {
                "step": self.first_step + place,
                "mode": "train",
                "start_ns": edges[place],
                "end_ns": edges[place + 1],
                "marks": {},
            }
            for place in range(self.steps)
        ]


Part = Capture | Raw | Vectors | Heartbeat | Happening | Detailed


def collections_of(name: str) -> tuple[str, ...]:
    """The collections of a tensor whose name follows the usual pattern."""
    if name.startswith("gradient/"):
        return ("gradients",)
    if name == "clock":
        return ("clock",)
    if re.search(r"(^|/)gradient_(norm|clipped)", name):
        return ("gradient_norms", "scalars")
    of_module = re.match(r"(?:.*\.)?(.+_(?:input|output))_\d+$", name)
    if of_module and "Loss" not in name:
        return ("layers", of_module[1])
    if "loss" in name:
        return ("losses", "scalars")
    if name.endswith("bias"):
        return ("biases",)
    return ("weights",) if "weight" in name else ("scalars",)


class RunWriter:
    """Writes a synthetic run.

    Args:
        path: The run's folder; its name is the run's.
        batch_rows: Rows of a layout that are gathered before a batch is written.
        segment_batches: Batches after which a layout's segment is closed and the next is opened.
        shapes: Shapes of tensors, by name.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rules: Sequence[RuleSpec] = (),
        actions: Sequence[ActionSpec] = (),
        batch_rows: int = 1,
        segment_batches: int = 1000,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        started_ns: int = START_NS,
    ) -> None:
        self.path = os.fspath(path)
        self.batch_rows, self.segment_batches = batch_rows, segment_batches
        self.shapes = dict(shapes or {})
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._ordinals: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        for folder in ("", *layout.FOLDERS):
            make_folder(os.path.join(self.path, folder))
        self.manifest = Manifest(
            name=os.path.basename(self.path),
            uri=self.path,
            command=("python", "train.py"),
            started_ns=started_ns,
            leadline="0.1.0",
            rules=tuple(rules),
            actions=tuple(actions),
        )
        write_document(os.path.join(self.path, layout.MANIFEST), self.manifest.to_dict())
        self.set_status("InProgress")

    def set_status(self, status: str, **changes: Any) -> None:
        """Write ``status.json``, as the agent does."""
        document = {
            "status": status,
            "transitions": [{"status": status, "time_ns": self.manifest.started_ns}],
            "stopped_by": None,
            "exit_status": None,
            "agent_pid": os.getpid(),
            "job_pid": os.getpid(),
            "node": "node",
            "ended_ns": None,
            **changes,
        }
        write_document(os.path.join(self.path, layout.STATUS), document)

    def write_all(self, parts: Sequence[Part]) -> RunWriter:
        """Write all parts and flush."""
        for _ in self.grow(parts):
            continue
        return self

    def grow(self, parts: Sequence[Part]) -> Iterator[Part]:
        """Write part by part, yielding after each; flushed at the end."""
        for part in parts:
            self.write(part)
            yield part
        self.flush()

    def write(self, part: Part) -> None:
        """Write one part; rows of a series wait for their batch to be full."""
        match part:
            case Capture():
                self._write_capture(part)
            case Raw():
                self._write_raw(part)
            case Vectors():
                self._write_raw(part.raw)
                self._write_capture(part.capture)
            case Detailed():
                self._write_window(part)
            case Heartbeat():
                stream = self._stream("system", part.node)
                stream.add((part.channel,), {"time_ns": part.time_ns, "channel": 0, "value": part.value})
            case Happening():
                row = asdict(part.event)
                self._stream("timeline", part.worker).add((), {**row, "args": json.dumps(row["args"])})

    def flush(self) -> None:
        """Write what waits."""
        for stream in self._streams.values():
            stream.flush()

    def end(self, status: str = "Completed", exit_status: int = 0) -> RunWriter:
        """Flush, let the workers say that they ended, and the agent that the job did."""
        self.flush()
        for worker in list(self._steps):
            self.write_worker(worker, state="ended")
        self.set_status(status, exit_status=exit_status, ended_ns=START_NS + 3600 * SECOND_NS)
        return self

    def write_worker(self, worker: str, **changes: Any) -> None:
        """Write a worker's document."""
        step = self._steps.get(worker, -1)
        document = {
            "worker": worker,
            "node": "node",
            "pid": os.getpid(),
            "started_ns": self.manifest.started_ns,
            "state": "running",
            "ended_ns": None,
            "framework": "none",
            "models": [],
            "optimizers": [],
            "watching": "",
            "steps": {"train": step + 1},
            "step": step,
            "time_ns": START_NS,
            "rows": 0,
            "bytes": 0,
            "own_ns": 0,
            "loop_ns": 1,
            "lost": None,
            "off": None,
            "notes": [],
            **changes,
        }
        write_document(os.path.join(self.path, layout.worker_document(worker)), document)

    def write_node(self, node: str, **changes: Any) -> None:
        """Write a node's document, as its agent does."""
        document = {
            "node": node,
            "agent_pid": os.getpid(),
            "started_ns": self.manifest.started_ns,
            "cpu_count": 2,
            "memory_bytes": 1 << 30,
            "gpus": [],
            "absent": {},
            "lost": None,
            "gone": [],
            **changes,
        }
        write_document(os.path.join(self.path, layout.node_document(node)), document)

    def _write_window(self, part: Detailed) -> None:
        folder = os.path.join(self.path, layout.profile(part.worker, part.id))
        make_folder(folder)
        with gzip.open(os.path.join(folder, layout.TRACE), "wt") as file:
            json.dump(part.trace, file)
        write_document(os.path.join(folder, layout.TRACE_STEPS), {"steps": part.step_list})
        document = {
            "id": part.id,
            "kind": "detailed",
            "timer": "total",
            "part": "loop",
            "first_step": part.first_step,
            "end_step": part.first_step + part.steps,
            "start_ns": part.start_ns,
            "end_ns": part.end_ns,
            "written_ns": part.whole_ns,
            "bytes": 1,
            "notes": [],
            "files": [layout.TRACE, layout.TRACE_STEPS],
        }
        write_document(os.path.join(folder, layout.WINDOW), document)

    def _write_capture(self, part: Capture) -> None:
        values = part.values or {"clock": {"value": 0.0}}
        names = tuple(values)
        tensors = tuple(part.info(each, self.shapes) for each in names)
        columns = tuple((index, each) for index, name in enumerate(names) for each in values[name])
        row = {
            "step": part.step,
            "mode": part.mode,
            "time_ns": part.at_ns,
            "mode_step": part.step if part.mode_step is None else part.mode_step,
            "values": [values[names[index]][each] for index, each in columns],
        }
        if part.worker not in self._steps:
            self.write_worker(part.worker)
        self._steps[part.worker] = max(part.step, self._steps.get(part.worker, -1))
        self._stream("series", part.worker).add(SeriesLayout(tensors, columns), row)

    def _write_raw(self, part: Raw) -> None:
        ordinal = self._ordinals[part.worker] = self._ordinals.get(part.worker, 0) + 1
        path = os.path.join(self.path, layout.tensor_segment(part.worker, ordinal))
        make_folder(os.path.dirname(path))
        header, offset, blobs = {}, 0, []
        for name, (dtype, shape, data) in part.tensors.items():
            key = layout.tensor_key(part.mode, part.step, name)
            header[key] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
            offset += len(data)
            blobs.append(data)
        spoken = json.dumps(header).encode()
        with open(path + ".part", "wb") as file:
            file.write(struct.pack("<Q", len(spoken)) + spoken + b"".join(blobs))
        os.replace(path + ".part", path)

    def _stream(self, part: str, name: str) -> _Stream:
        if (part, name) not in self._streams:
            folder = SegmentFolder(self.path, part, name)
            self._streams[part, name] = _Stream(part, folder, self.batch_rows, self.segment_batches)
        return self._streams[part, name]


class _Stream:
    """One stream: a segment for each layout, batches counted over all of them."""

    def __init__(self, part: str, folder: SegmentFolder, batch_rows: int, segment_batches: int) -> None:
        self._part, self._folder = part, folder
        self._batch_rows, self._segment_batches = batch_rows, segment_batches
        self._waiting: dict[Any, list[dict[str, Any]]] = {}
        self._open: dict[Any, tuple[Segment, int]] = {}
        self._sequence = 0
        self._complete_step = -1

    def add(self, key: Any, row: dict[str, Any]) -> None:
        rows = self._waiting.setdefault(key, [])
        rows.append(row)
        if len(rows) >= self._batch_rows:
            self._write(key)

    def flush(self) -> None:
        """Write what waits; the last batch says up to where nothing is missing."""
        last = max((row.get("step", -1) for rows in self._waiting.values() for row in rows), default=-1)
        for key in [key for key, rows in self._waiting.items() if rows]:
            is_last = sum(map(bool, self._waiting.values())) == 1
            self._write(key, last if is_last else None)

    def _write(self, key: Any, complete_step: int | None = None) -> None:
        rows = self._waiting.pop(key)
        if self._part == "series":
            self._complete_step = max(self._complete_step, self._completed(rows, complete_step))
        segment, batches = self._segment(key)
        segment.append(self._sequence, len(rows), self._columns(rows))
        self._sequence += 1
        if batches + 1 >= self._segment_batches:
            segment.close()
            del self._open[key]
        else:
            self._open[key] = (segment, batches + 1)

    def _completed(self, rows: list[dict[str, Any]], complete_step: int | None) -> int:
        """Steps before the last that was begun are whole, but for what still waits."""
        waiting = [row["step"] for each in self._waiting.values() for row in each]
        begun = max(row["step"] for row in rows)
        if complete_step is not None:
            begun = max(begun, complete_step) + 1
        return int(min([begun, *waiting])) - 1

    def _segment(self, key: Any) -> tuple[Segment, int]:
        if key not in self._open:
            match self._part:
                case "series":
                    schema = codec.series_schema(len(key.columns))
                    self._open[key] = (self._folder.open(schema, codec.series_metadata(key)), 0)
                case "system":
                    self._open[key] = (self._folder.open(codec.SYSTEM, codec.system_metadata(key)), 0)
                case _:
                    self._open[key] = (self._folder.open(codec.TIMELINE, {}), 0)
        return self._open[key]

    def _columns(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        kinds = {"series": codec.SERIES_COLUMNS, "system": codec.SYSTEM.columns, "timeline": codec.TIMELINE.columns}
        columns: dict[str, Any] = {}
        for name, kind in kinds[self._part]:
            match kind:
                case "float64[]":
                    columns[name] = codec.float64_buffer([value for row in rows for value in row[name]])
                case "float64":
                    columns[name] = codec.float64_buffer([row[name] for row in rows])
                case "utf8":
                    columns[name] = [row[name] for row in rows]
                case _:
                    columns[name] = codec.int64_buffer([row.get(name, self._complete_step) for row in rows])
        return columns
