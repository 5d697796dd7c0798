"""Synthetic runs, written with the real store, at once or step by step."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from leadline.records.documents import NodeDocument, RunStatus, Transition, WorkerDocument
from leadline.records.event import Event
from leadline.records.json_object import JsonObject
from leadline.records.manifest import ActionSpec, Manifest, RuleSpec
from leadline.records.metric import Channel
from leadline.records.plan import CapturePlan
from leadline.records.profile_window import TraceStep
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.store.segments import SegmentFolder
from leadline.store.stream_writer import StreamWriter
from leadline.store.tensors import write_tensors

SECOND_NS = 1_000_000_000
START_NS = 1_795_000_000 * SECOND_NS
DEFAULT_CHANNEL = Channel("cpu", "total", "utilization_percent")

Values = Mapping[str, Mapping[str, float]]
"""Statistics by tensor name: ``{"loss": {"value": 0.5}}``."""


@dataclass(frozen=True, slots=True)
class Capture:
    """The values that one worker captured at one step, in one column layout; without values: a heartbeat."""

    step: int
    values: Values = field(default_factory=dict)
    worker: str = "rank0-1"
    mode: str = "train"
    mode_step: int | None = None
    """None: the global step."""
    time_ns: int | None = None
    """None: a tenth of a second per step after ``START_NS``."""
    infos: Mapping[str, TensorInfo] = field(default_factory=dict)
    """Collections, shape and data type of tensors, if they do not follow from the names."""

    def info(self, name: str, shapes: Mapping[str, tuple[int, ...]]) -> TensorInfo:
        """Return a tensor's entry in the series."""
        return self.infos.get(name) or TensorInfo(name, collections_of(name), shapes.get(name, ()))

    @property
    def at_ns(self) -> int:
        return START_NS + self.step * SECOND_NS // 10 if self.time_ns is None else self.time_ns


@dataclass(frozen=True, slots=True)
class RawTensors:
    """Raw tensors that a worker stored at one step: (dtype, shape, bytes) by name, as in safetensors."""

    step: int
    tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]
    worker: str = "rank0-1"
    mode: str = "train"


@dataclass(frozen=True, slots=True)
class ArrayStatistics:
    """Array statistics of tensors that a worker captured at one step."""

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
        """The row of the series that describes the tensors."""
        rows = {name: {"nonfinite_count": 0.0} for name in self.values}
        return Capture(self.step, rows, self.worker, self.mode, self.mode_step, infos=self.infos)

    @property
    def raw(self) -> RawTensors:
        """The arrays as they are stored."""
        arrays = {
            layout.vector_name(name, statistic): np.asarray(values, dtype="<f8")
            for name, statistics in self.values.items()
            for statistic, values in statistics.items()
        }
        tensors = {name: ("F64", tuple(values.shape), values.tobytes()) for name, values in arrays.items()}
        return RawTensors(self.step, tensors, self.worker, self.mode)


@dataclass(frozen=True, slots=True)
class SystemSample:
    """One sample of a system metric on a node."""

    time_ns: int
    value: float = 50.0
    channel: Channel = DEFAULT_CHANNEL
    node: str = "node"


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event of a worker's timeline."""

    event: Event
    worker: str = "rank0-1"


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """The facts that a worker's document states."""

    facts: Mapping[str, Any]
    worker: str = "rank0-1"


@dataclass(frozen=True, slots=True)
class DetailedProfile:
    """A detailed profile window of a worker, with its trace as torch.profiler writes it."""

    id: str
    first_step: int
    start_ns: int
    calls: Sequence[tuple[str, float, float]]
    """Operators with start and duration in milliseconds, from the start of the window."""
    steps: int = 1
    step_ms: float = 100.0
    worker: str = "rank0-1"
    written_ns: int | None = None
    """The time at which it was complete; None: a tenth of a second after its end."""

    @property
    def end_ns(self) -> int:
        return self.start_ns + round(self.steps * self.step_ms * 1e6)

    @property
    def complete_ns(self) -> int:
        return self.end_ns + SECOND_NS // 10 if self.written_ns is None else self.written_ns

    @property
    def trace(self) -> JsonObject:
        """The trace as torch.profiler writes it."""
        events = [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": name,
                "pid": 1,
                "tid": 1,
                "ts": start_ms * 1e3,
                "dur": duration_ms * 1e3,
                "args": {"External id": index},
            }
            for index, (name, start_ms, duration_ms) in enumerate(self.calls)
        ]
        return {"baseTimeNanoseconds": self.start_ns, "traceEvents": events}

    @property
    def step_list(self) -> list[TraceStep]:
        """The times of the steps."""
        edges = [self.start_ns + round(index * self.step_ms * 1e6) for index in range(self.steps + 1)]
        return [
            {
                "step": self.first_step + index,
                "mode": "train",
                "start_ns": edges[index],
                "end_ns": edges[index + 1],
                "marks": {},
            }
            for index in range(self.steps)
        ]


Part = Capture | RawTensors | ArrayStatistics | SystemSample | TimelineEvent | WorkerFacts | DetailedProfile


def collections_of(name: str) -> tuple[str, ...]:
    """Return the collections of a tensor whose name follows the usual pattern."""
    if name.startswith("gradient/"):
        return ("gradients",)
    if name == "clock":
        return ("clock",)
    if re.search(r"(^|/)gradient_(norm|clipped)", name):
        return ("gradient_norms", "scalars")
    module_tensor = re.match(r"(?:.*\.)?(.+_(?:input|output))_\d+$", name)
    if module_tensor and "Loss" not in name:
        return ("layers", module_tensor[1])
    if "loss" in name:
        return ("losses", "scalars")
    if name.endswith("bias"):
        return ("biases",)
    return ("weights",) if "weight" in name else ("scalars",)


class RunWriter:
    """Writes a synthetic run.

    Args:
        path: The run directory; its name is the name of the run.
        batch_rows: Rows per batch of a layout.
        segment_batches: Batches per segment of a layout.
        shapes: Shapes of tensors by name.
        compresses: Whether segments of narrow rows are compressed; earlier versions compressed none.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rules: Sequence[RuleSpec] = (),
        actions: Sequence[ActionSpec] = (),
        plan: CapturePlan | None = None,
        batch_rows: int = 1,
        segment_batches: int = 1000,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        started_ns: int = START_NS,
        compresses: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self.compresses = compresses
        self.batch_rows, self.segment_batches = batch_rows, segment_batches
        self.shapes = dict(shapes or {})
        self._streams: dict[tuple[str, str], StreamWriter] = {}
        self._ordinals: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}
        for folder in ("", *layout.FOLDERS):
            make_folder(os.path.join(self.path, folder))
        self.manifest = Manifest(
            name=os.path.basename(self.path),
            uri=self.path,
            command=("python", "train.py"),
            started_ns=started_ns,
            leadline="0.1.0",
            plan=plan or CapturePlan(),
            rules=tuple(rules),
            actions=tuple(actions),
        )
        write_document(os.path.join(self.path, layout.MANIFEST), self.manifest.to_dict())
        self.set_status("InProgress")

    def set_status(self, status: str, **changes: Any) -> None:
        """Write ``status.json``, as the agent does."""
        began, pid = Transition(status, self.manifest.started_ns), os.getpid()
        document = RunStatus(status, (began,), agent_pid=pid, job_pid=pid, node="node").fields() | changes
        write_document(os.path.join(self.path, layout.STATUS), document)

    def write_all(self, parts: Sequence[Part]) -> RunWriter:
        """Write all parts and flush."""
        for _ in self.grow(parts):
            continue
        return self

    def grow(self, parts: Sequence[Part]) -> Iterator[Part]:
        """Write part by part, yielding after each one; flush at the end."""
        for part in parts:
            self.write(part)
            yield part
        self.flush()

    def write(self, part: Part) -> None:
        """Write one part; rows of a series wait until their batch is full."""
        match part:
            case Capture():
                self._write_capture(part)
            case RawTensors():
                self._write_raw(part)
            case ArrayStatistics():
                self._write_raw(part.raw)
                self._write_capture(part.capture)
            case DetailedProfile():
                self._write_window(part)
            case WorkerFacts():
                self._facts[part.worker] = part.facts
                self.write_worker(part.worker)
            case SystemSample():
                stream = self._stream("system", part.node)
                stream.add((part.channel,), {"time_ns": part.time_ns, "channel": 0, "value": part.value})
            case TimelineEvent():
                row = asdict(part.event)
                self._stream("timeline", part.worker).add((), {**row, "args": json.dumps(row["args"])})

    def flush(self) -> None:
        """Write the waiting rows."""
        for stream in self._streams.values():
            stream.flush()

    def end(self, status: str = "Completed", exit_status: int = 0) -> RunWriter:
        """Flush, and write that the workers and the job have ended."""
        self.flush()
        for worker in list(self._steps):
            self.write_worker(worker, state="ended")
        self.set_status(status, exit_status=exit_status, ended_ns=START_NS + 3600 * SECOND_NS)
        return self

    def write_worker(self, worker: str, **changes: Any) -> None:
        """Write the document of a worker."""
        step = self._steps.get(worker, -1)
        document = WorkerDocument(
            worker=worker,
            node="node",
            pid=os.getpid(),
            started_ns=self.manifest.started_ns,
            framework="none",
            steps={"train": step + 1},
            step=step,
            time_ns=START_NS,
            loop_ns=1,
            state="running",
            facts=dict(self._facts.get(worker, {})),
        ).fields()
        write_document(os.path.join(self.path, layout.worker_document(worker)), document | changes)

    def write_node(self, node: str, **changes: Any) -> None:
        """Write the document of a node, as its agent does."""
        started_ns = self.manifest.started_ns
        document = NodeDocument(node, os.getpid(), started_ns, cpu_count=2, memory_bytes=1 << 30).fields() | changes
        write_document(os.path.join(self.path, layout.node_document(node)), document)

    def _write_window(self, part: DetailedProfile) -> None:
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
            "written_ns": part.complete_ns,
            "bytes": 1,
            "notes": [],
            "files": [layout.TRACE, layout.TRACE_STEPS],
        }
        write_document(os.path.join(folder, layout.WINDOW), document)

    def _write_capture(self, part: Capture) -> None:
        values = part.values or {"clock": {"value": 0.0}}
        names = tuple(values)
        tensors = tuple(part.info(name, self.shapes) for name in names)
        columns = tuple((index, statistic) for index, name in enumerate(names) for statistic in values[name])
        row = {
            "step": part.step,
            "mode": part.mode,
            "time_ns": part.at_ns,
            "mode_step": part.step if part.mode_step is None else part.mode_step,
            "values": [values[names[index]][statistic] for index, statistic in columns],
        }
        if part.worker not in self._steps:
            self.write_worker(part.worker)
        self._steps[part.worker] = max(part.step, self._steps.get(part.worker, -1))
        self._stream("series", part.worker).add(SeriesLayout(tensors, columns), row)

    def _write_raw(self, part: RawTensors) -> None:
        ordinal = self._ordinals[part.worker] = self._ordinals.get(part.worker, 0) + 1
        path = os.path.join(self.path, layout.tensor_segment(part.worker, ordinal))
        make_folder(os.path.dirname(path))
        keyed = {layout.tensor_key(part.mode, part.step, name): values for name, values in part.tensors.items()}
        write_tensors(path, keyed)

    def _stream(self, part: str, name: str) -> StreamWriter:
        if (part, name) not in self._streams:
            folder = SegmentFolder(self.path, part, name, compresses=self.compresses)
            self._streams[part, name] = StreamWriter(part, folder, self.batch_rows, self.segment_batches)
        return self._streams[part, name]
