"""Export of a run's tensors as a trial that smdebug's reader opens."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from leadline.compat.smdebug.run_step_source import SavedSteps
from leadline.errors import ConfigurationError, DamagedRunError
from leadline.exports.span import Span
from leadline.formats.event_file import record_of
from leadline.reader.run import open_run
from leadline.records.json_object import JsonObject
from leadline.records.names import rank_of
from leadline.store.documents import make_folder, replace_file
from leadline.trials.folder import COLLECTIONS, END, EVENTS, INDEX
from leadline.trials.steps import leadline_statistic

if TYPE_CHECKING:
    from leadline.reader.run import Run

_EVERYTHING: Final = "all"
_REDUCTION: Final = "smdebug/reductions/"
_STEPS_PER_FOLDER: Final = 1000
_AS_SAVED: Final = re.compile(r"worker_\d+|_job-.*")


@dataclass(slots=True)
class ExportedTrial:
    """What was written, and what was left out, one line each."""

    records: int
    steps: int
    workers: int
    left_out: list[str]


def export_trial(run: Run, folder: str, span: Span) -> ExportedTrial:
    """Write raw tensors, single numbers and reductions, with steps, modes, workers and collections.

    A number of which only the value was captured is a float64 of shape (1,); bfloat16 is written as float32.

    Raises:
        ConfigurationError: The folder is not empty.
        OSError: A file could not be written.
    """
    if os.path.isdir(folder) and os.listdir(folder):
        raise ConfigurationError(f"-o {folder}: the folder is not empty; choose another one")
    saved = SavedSteps(run)
    exported = ExportedTrial(0, 0, len(saved.all_workers), [])
    _write_steps(saved, folder, span, _steps_of(saved), exported)
    if saved.has_ended:
        _write(folder, END, b"")
    return exported


class GrowingTrial:
    """A trial to which the steps of a running training are exported.

    A step is exported when it was there at the previous update and a later one is there as well: what is captured of a
    step is not written at once.

    Args:
        run: The run directory.
        folder: The folder of the trial; empty or missing.
    """

    def __init__(self, run: str, folder: str) -> None:
        self._run, self._folder = run, folder
        self._seen: set[tuple[str, int]] = set()
        self._exported: set[tuple[str, int]] = set()

    def update(self) -> list[str]:
        """Export what is complete, everything if the training has ended; return what was left out, one line each.

        Raises:
            LeadlineError: The run cannot be read.
            OSError: A file could not be written.
        """
        saved = SavedSteps(open_run(self._run))
        steps = _steps_of(saved)
        last = {worker: max(step for of, step in steps if of == worker) for worker, _ in steps}
        ready = steps if saved.has_ended else {one for one in steps & self._seen if one[1] < last[one[0]]}
        exported = ExportedTrial(0, 0, 0, [])
        self._seen = steps
        if ready - self._exported or saved.has_ended:
            _write_steps(saved, self._folder, Span(), ready - self._exported, exported)
            self._exported |= ready
        if saved.has_ended:
            _write(self._folder, END, b"")
        return exported.left_out


def _steps_of(saved: SavedSteps) -> set[tuple[str, int]]:
    """Return the worker and the global step of everything that was saved."""
    return {(worker, step) for step, workers in saved.workers.items() for worker in workers}


def _write_steps(
    saved: SavedSteps, folder: str, span: Span, steps: set[tuple[str, int]], exported: ExportedTrial
) -> None:
    """Write the collections, and those of some steps of workers that are in the span."""
    names = _worker_names(saved)
    for name in names.values():
        _write_json(folder, f"{COLLECTIONS}/{0:09d}/{name}_collections.json", _collections(saved, len(names)))
    for worker, step in sorted(steps):
        time_ns = _time_ns(saved.run, saved.run_worker(worker), step)
        if span.contains(time_ns):
            exported.records += _write_step(saved, folder, (worker, names[worker]), step, time_ns, exported.left_out)
            exported.steps += 1


def _write_step(
    saved: SavedSteps, folder: str, worker: tuple[str, str], step: int, time_ns: int, left_out: list[str]
) -> int:
    """Write what a worker saved at a step, the event file before its index; return the number of records."""
    mode, mode_step = saved.stamps[step]
    events, payload, shapes = bytearray(), [], []
    for name, values in _records(saved, worker[0], step, left_out):
        of_script_ns = saved.timestamp_ns(name, step)
        record_ns = time_ns if of_script_ns is None else of_script_ns
        record = record_of(name, values, step=step, time_ns=record_ns, mode=mode.value, mode_step=mode_step)
        payload.append({"tensorname": name, "start_idx": len(events), "length": len(record)})
        events += record
    for name, held in saved.tensors.items():
        shape = saved.tensor(name).shape
        if worker[0] in held.get(step, ()) and worker[0] not in saved.raw[name].get(step, ()) and shape:
            shapes.append({"tensorname": name, "originalname": name, "shape": list(shape)})
    place = f"{EVENTS}/{step:012d}/{step:012d}_{worker[1]}.tfevents"
    meta = {"mode": mode.name, "mode_step": mode_step, "event_file_name": place}
    if payload:
        _write(folder, place, bytes(events))
    document = {"meta": meta, "tensor_payload": payload, "shape_payload": shapes}
    _write_json(folder, f"{INDEX}/{step // _STEPS_PER_FOLDER:09d}/{step:012d}_{worker[1]}.json", document)
    return len(payload)


def _records(saved: SavedSteps, worker: str, step: int, left_out: list[str]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the names and values of the records of a step: reductions, then raw tensors, as smdebug writes them."""
    mode, mode_step = saved.stamps[step]
    where = {"worker": saved.run_worker(worker), "mode": saved.run_mode(mode)}
    for name, held in saved.tensors.items():
        if worker not in held.get(step, ()):
            continue
        tensor = saved.tensor(name)
        for reduction in sorted(saved.reductions(name, step, worker)):
            value = tensor.statistic(leadline_statistic(reduction), mode_step, **where)
            yield f"{_REDUCTION}{reduction}/{name}", np.asarray(value, np.float64)
        if worker in saved.raw[name].get(step, ()):
            try:
                values = tensor.value(mode_step, **where)
            except DamagedRunError as error:
                left_out.append(str(error))
                continue
            yield name, values.reshape(1) if _is_number(saved, name, values) else values


def _is_number(saved: SavedSteps, name: str, values: npt.NDArray[Any]) -> bool:
    """Return whether only the value of a tensor was captured, not the tensor."""
    return values.shape == () and saved.original_name(name) not in saved.run.archive.stored


def _collections(saved: SavedSteps, workers: int) -> JsonObject:
    """Return a collections file: as it was imported, or of what was captured, with the settings of a hook."""
    entries = saved.trial.get("collections") or {
        name: {
            "name": name,
            "include_regex": list(entry.get("include_regex") or ()),
            "tensor_names": sorted(entry["tensor_names"]),
            "reduction_config": entry.get("reduction_config"),
            "save_config": entry.get("save_config"),
            "save_histogram": bool(entry.get("save_histogram", False)),
        }
        for name, entry in saved.collection_entries().items()
        if name != _EVERYTHING or name in saved.hook.get("collections", ())
    }
    return {"collections": entries, "_meta": {"num_workers": workers}}


def _worker_names(saved: SavedSteps) -> dict[str, str]:
    """Return smdebug's name of each worker in files: ``worker_<rank>``, without ranks counted."""
    names: dict[str, str] = {}
    for index, worker in enumerate(saved.all_workers):
        in_run = saved.run_worker(worker)
        rank = rank_of(in_run)
        name = in_run if _AS_SAVED.fullmatch(in_run) else f"worker_{index if rank is None else rank}"
        names[worker] = name if name not in names.values() else f"worker_{len(saved.all_workers) + index}"
    return names


def _time_ns(run: Run, worker: str, step: int) -> int:
    stamp = run.archive.stamp(worker, step)
    return stamp[1] if stamp else run.manifest.started_ns


def _write_json(folder: str, place: str, document: Any) -> None:
    _write(folder, place, json.dumps(document).encode())


def _write(folder: str, place: str, data: bytes) -> None:
    path = os.path.join(folder, place)
    make_folder(os.path.dirname(path))
    with replace_file(path) as file:
        file.write(data)
