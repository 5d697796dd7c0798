"""Tensors of a trial, written as the series and raw tensors of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.formats.safetensors import NAMES
from leadline.records.json_object import JsonObject
from leadline.records.names import SCALAR_COLLECTIONS
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.statistics.definitions import BASIC
from leadline.statistics.one_pass import compute_all
from leadline.store import layout
from leadline.store.documents import make_folder
from leadline.store.segments import SegmentFolder
from leadline.store.stream_writer import StreamWriter
from leadline.store.tensors import write_tensors
from leadline.trials.folder import Collections, IndexFile
from leadline.trials.steps import SavedStep, is_scalar_name, read_step

_BATCH_ROWS: Final = 64
_SEGMENT_BATCHES: Final = 256
_SEGMENT_BYTES: Final = 64 << 20
_WITHOUT_TENSORS: Final = TensorInfo("clock", ("clock",))
_COMPUTED: Final[dict[str, tuple[str, ...]]] = {
    "weights": (*BASIC, "checksum"),
    "biases": (*BASIC, "checksum"),
    "trees": ("min", "max"),  # NaN is the threshold of a leaf
}
"""The statistics that are computed from the raw tensors of a collection, so that rules can be evaluated."""


@dataclass(slots=True)
class ImportedWorker:
    """What was imported of one worker.

    Attributes:
        steps: The number of steps up to the last saved one, by mode.
        step: The last saved global step.
        stamps: The saved steps: global step, mode, step within the mode.
        reductions: For each global step, the index of its entry in ``reduction_sets``.
        hyperparameters: The last values of the tensors of that collection, by name.
    """

    name: str
    first_ns: int = 0
    last_ns: int = 0
    step: int = -1
    steps: dict[str, int] = field(default_factory=dict)
    stamps: list[tuple[int, str, int]] = field(default_factory=list)
    rows: int = 0
    tensors: set[str] = field(default_factory=set)
    reductions: dict[int, int] = field(default_factory=dict)
    hyperparameters: JsonObject = field(default_factory=dict)
    losses: dict[str, float | str | None] = field(default_factory=dict)


class TensorImport:
    """Imports the tensors of a trial into a run directory.

    Attributes:
        workers: What was imported, by worker.
        reduction_sets: The different sets of stored reductions of a step: smdebug's names by tensor.
    """

    def __init__(self, folder: str, run: str, collections: Collections, damage: list[str]) -> None:
        self.workers: dict[str, ImportedWorker] = {}
        self.reduction_sets: list[dict[str, list[str]]] = []
        self._folder, self._run, self._damage = folder, run, damage
        self._collections = collections
        self._known = sorted({name for entry in collections.entries.values() for name in entry["tensor_names"]})
        self._collections_of: dict[str, tuple[str, ...]] = {}

    def write(self, files: list[IndexFile]) -> None:
        """Import the steps of some index files, which are ordered by worker and step."""
        for name in dict.fromkeys(file.worker for file in files):
            worker = self.workers[name] = ImportedWorker(name)
            series = StreamWriter(
                layout.SERIES, SegmentFolder(self._run, layout.SERIES, name), _BATCH_ROWS, _SEGMENT_BATCHES
            )
            raw = _RawWriter(self._run, name)
            for file in files:
                if file.worker == name:
                    self._write_step(worker, series, raw, read_step(self._folder, file, self._known))
            series.flush()
            raw.flush()

    def _write_step(self, worker: ImportedWorker, series: StreamWriter, raw: _RawWriter, saved: SavedStep) -> None:
        index = saved.index
        self._damage += saved.damage
        if not saved.names:
            return
        columns = [(name, self._info(saved, name), self._statistics(saved, name)) for name in saved.names]
        infos = tuple(info for _, info, _ in columns)
        values = [(at, name, value) for at, (_, _, of) in enumerate(columns) for name, value in of.items()]
        if not values:  # only texts or shapes: the row still tells the step and the collections
            infos, values = (*infos, _WITHOUT_TENSORS), [(len(infos), "value", 0.0)]
        key = SeriesLayout(infos, tuple((at, name) for at, name, _ in values))
        row = {
            "step": index.step,
            "mode": index.mode,
            "mode_step": index.mode_step,
            "time_ns": saved.time_ns,
            "values": [value for _, _, value in values],
        }
        series.add(key, row)
        raw.add(index.mode, index.step, saved.tensors)
        self._note(worker, saved)

    def _note(self, worker: ImportedWorker, saved: SavedStep) -> None:
        index = saved.index
        worker.first_ns = min(worker.first_ns or saved.time_ns, saved.time_ns)
        worker.last_ns = max(worker.last_ns, saved.time_ns)
        worker.step = max(worker.step, index.step)
        worker.steps[index.mode] = max(worker.steps.get(index.mode, 0), index.mode_step + 1)
        worker.stamps.append((index.step, index.mode, index.mode_step))
        worker.rows += 1
        worker.tensors.update(saved.names)
        stored = {name: list(reductions) for name, reductions in saved.reductions.items()}
        if stored not in self.reduction_sets:
            self.reduction_sets.append(stored)
        worker.reductions[index.step] = self.reduction_sets.index(stored)
        for name, values in saved.tensors.items():
            if "hyperparameters" in self._members_of(name) and 0 < values.size <= 8:
                items = values.reshape(-1).tolist()
                worker.hyperparameters[name.removeprefix("hyperparameters/")] = items[0] if len(items) == 1 else items
            if "losses" in self._members_of(name) and values.size == 1 and values.dtype.kind == "f":
                worker.losses[name] = float(values.reshape(-1)[0])

    def _members_of(self, name: str) -> tuple[str, ...]:
        if name not in self._collections_of:
            self._collections_of[name] = self._collections.of(name)
        return self._collections_of[name]

    def _info(self, saved: SavedStep, name: str) -> TensorInfo:
        values = saved.tensors.get(name)
        if values is None:
            return TensorInfo(name, self._members_of(name), saved.index.shapes.get(name, ()))
        kind = "text" if values.dtype.kind == "U" else values.dtype.name
        return TensorInfo(name, self._members_of(name), values.shape, kind)

    def _statistics(self, saved: SavedStep, name: str) -> dict[str, float]:
        """Return the statistics of a tensor: those that were stored, and others computed from its elements."""
        stored, values = saved.statistics(name), saved.tensors.get(name)
        if values is None or values.dtype.kind == "U":
            return stored
        members = self._members_of(name)
        computed = {"value": float(values.reshape(-1)[0].real)} if values.size == 1 else {}
        if computed and (is_scalar_name(name) or not SCALAR_COLLECTIONS.isdisjoint(members)):
            return computed | stored
        names = next((_COMPUTED[member] for member in members if member in _COMPUTED), BASIC)
        return computed | dict(zip(names, compute_all(names, values), strict=True)) | stored


class _RawWriter:
    """Writes the raw tensors of one worker, many steps to a segment."""

    def __init__(self, run: str, worker: str) -> None:
        self._run, self._worker = run, worker
        self._ordinal = self._bytes = 0
        self._waiting: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
        self._texts: list[str] = []

    def add(self, mode: str, step: int, tensors: dict[str, npt.NDArray[Any]]) -> None:
        for name, values in tensors.items():
            key = layout.tensor_key(mode, step, name)
            self._waiting[key] = stored = _stored_form(values)
            self._bytes += len(stored[2])
            if values.dtype.kind == "U":
                self._texts.append(key)
        if self._bytes >= _SEGMENT_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the waiting tensors."""
        if not self._waiting:
            return
        self._ordinal += 1
        path = os.path.join(self._run, layout.tensor_segment(self._worker, self._ordinal))
        make_folder(os.path.dirname(path))
        write_tensors(path, self._waiting, {layout.TEXTS: json.dumps(self._texts)} if self._texts else {})
        self._waiting, self._texts, self._bytes = {}, [], 0


def _stored_form(values: npt.NDArray[Any]) -> tuple[str, tuple[int, ...], bytes]:
    """Return type, shape and bytes of a tensor as safetensors; texts as code points with a last dimension of their own.

    Shape:
        values: any ``(*shape,)``; stored ``(*shape,)``, of texts ``(*shape, characters)``.
    """
    if values.dtype.kind != "U":
        contiguous = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        return NAMES[contiguous.dtype.name], values.shape, contiguous.tobytes()
    texts = np.ascontiguousarray(values, f"<U{max(1, values.dtype.itemsize // 4)}")
    return "U32", (*values.shape, texts.dtype.itemsize // 4), texts.tobytes()


def saved_positions(workers: dict[str, ImportedWorker]) -> Iterator[tuple[int, str, int]]:
    """Yield the saved steps of all workers: global step, mode, step within the mode."""
    for worker in workers.values():
        yield from worker.stamps
