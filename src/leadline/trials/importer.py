"""Import of a trial: everything of it that a run directory can hold, written as one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from leadline.errors import ConfigurationError, RunExistsError
from leadline.records.documents import NodeDocument, RunStatus, Transition, WorkerDocument
from leadline.records.gpu_description import GpuDescription
from leadline.records.json_object import JsonObject
from leadline.records.manifest import Manifest
from leadline.records.names import MODES
from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.records.version import __version__
from leadline.statistics.definitions import BASIC
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.trials.folder import (
    Collections,
    IndexFile,
    TrialFolder,
    find_trial,
    read_collections,
    read_index,
    why_no_trial,
)
from leadline.trials.python_profiles import import_python_profiles
from leadline.trials.system import ImportedNode, import_system
from leadline.trials.tensors import ImportedWorker, TensorImport, saved_positions
from leadline.trials.timeline import ImportedTimeline, StepNumbers, import_timeline, timeline_files

FORMAT: Final = "smdebug"
_TREES: Final = "trees"
_NO_MODE: Final = "global"
"""smdebug's mode of a script that sets none."""


@dataclass(slots=True)
class ImportedTrial:
    """What was imported.

    Attributes:
        damage: One line for each part that could not be read, with its place in the trial.
    """

    run: str
    tensors: int = 0
    steps: int = 0
    workers: int = 0
    nodes: int = 0
    events: int = 0
    profiles: int = 0
    damage: list[str] = field(default_factory=list)


def import_trial(trial: str | os.PathLike[str], run: str | os.PathLike[str]) -> ImportedTrial:
    """Import a trial that smdebug wrote as a run.

    Args:
        trial: Its folder, or that of a job with ``debug-output`` and ``profiler-output``.
        run: The run directory to create; it appears when it is complete.
    Raises:
        ConfigurationError: There is no trial at the path, or nothing of it can be read.
        RunExistsError: The run directory exists.
        OSError: The run could not be written.
    """
    source, path = os.fspath(trial), os.path.abspath(run)
    found = find_trial(source)
    if found is None:
        raise ConfigurationError(f"{source}: {why_no_trial(source)}")
    if os.path.exists(path):
        raise RunExistsError(f"{path} exists; choose another name, or delete it first")
    make_folder(os.path.dirname(path))
    partial = f"{path}.{os.getpid()}.part"
    try:
        imported = _TrialImport(found, partial, path).write()
        os.rename(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return imported


class _TrialImport:
    """The import of one trial into a folder that is not a run yet."""

    def __init__(self, trial: TrialFolder, folder: str, path: str) -> None:
        self._trial, self._folder, self._path = trial, folder, path
        self._imported = ImportedTrial(path)
        self._collections = Collections()
        self._reductions: list[dict[str, list[str]]] = []
        self._workers: dict[str, ImportedWorker] = {}
        self._nodes: dict[str, ImportedNode] = {}
        self._timelines: dict[str, ImportedTimeline] = {}
        self._has_mode = False

    def write(self) -> ImportedTrial:
        """Import tensors and profiles, then the documents that describe them."""
        for name in ("", *layout.FOLDERS):
            make_folder(os.path.join(self._folder, name))
        damage = self._imported.damage
        if self._trial.tensors is not None:
            self._collections = read_collections(self._trial.tensors, damage)
            tensors = TensorImport(self._trial.tensors, self._folder, self._collections, damage)
            tensors.write(self._with_modes(read_index(self._trial.tensors, damage)))
            self._workers, self._reductions = tensors.workers, tensors.reduction_sets
        if self._trial.profiles is not None:
            self._import_profiles(self._trial.profiles)
        if not any(worker.rows for worker in self._workers.values()) and not self._nodes and not self._has_profiles():
            raise ConfigurationError(f"{self._trial.path}: nothing of the trial can be read: {'; '.join(damage[:3])}")
        self._write_documents()
        return self._imported

    def _with_modes(self, files: list[IndexFile]) -> list[IndexFile]:
        """Return index files with Leadline's modes: without any mode, steps are train steps."""
        self._has_mode = any(file.mode != _NO_MODE for file in files)
        return files if self._has_mode else [replace(file, mode=MODES[0]) for file in files]

    def _has_profiles(self) -> bool:
        return bool(self._imported.profiles or any(timeline.events for timeline in self._timelines.values()))

    def _import_profiles(self, folder: str) -> None:
        damage = self._imported.damage
        self._nodes = import_system(folder, self._folder, damage)
        numbers = StepNumbers(saved_positions(self._workers), {} if self._has_mode else {_NO_MODE: MODES[0]})
        files = timeline_files(folder)
        for process, paths in files.items():
            worker = self._worker_of(process, files)
            self._timelines[worker] = import_timeline(paths, folder, self._folder, worker, numbers, damage)
        self._imported.profiles = import_python_profiles(
            folder, self._folder, lambda process: self._worker_of(process, files), numbers, damage
        )

    def _worker_of(self, process: str, processes: Iterable[str]) -> str:
        """Return the worker of a process of the profiles.

        Its name begins with a rank or a process id; without a worker of that rank, a single process is the single
        worker, and any other stands for itself.
        """
        by_rank = f"worker_{process.partition('-')[0]}"
        if by_rank in self._workers:
            return by_rank
        is_single = len(self._workers) == 1 and set(processes) <= {process}
        return next(iter(self._workers)) if is_single else process

    def _write_documents(self) -> None:
        names = sorted({*self._workers, *self._timelines})
        moments = [(worker.first_ns, worker.last_ns) for worker in self._workers.values()]
        moments += [(timeline.first_ns, timeline.last_ns) for timeline in self._timelines.values()]
        moments += [(node.first_ns, node.last_ns) for node in self._nodes.values()]
        started_ns = min((first for first, last in moments if last), default=0)
        ended_ns = max((last for _, last in moments), default=0)
        for name in names:
            document = self._worker_document(name, started_ns)
            write_document(os.path.join(self._folder, layout.worker_document(name)), document.fields())
        for node in self._nodes.values():
            write_document(os.path.join(self._folder, layout.node_document(node.name)), _node_document(node).fields())
        self._count(names)
        write_document(os.path.join(self._folder, layout.TRIAL), self._trial_document())
        write_document(os.path.join(self._folder, layout.STATUS), self._status(started_ns, ended_ns).fields())
        manifest = Manifest(
            name=os.path.basename(self._path),
            uri=self._path,
            command=("leadline", "import", self._trial.path),
            started_ns=started_ns,
            leadline=__version__,
            preset="sagemaker",
            plan=CapturePlan(items=tuple(_items(self._collections.entries))),
        )
        write_document(os.path.join(self._folder, layout.MANIFEST), manifest.to_dict())

    def _count(self, names: list[str]) -> None:
        imported, workers = self._imported, self._workers.values()
        imported.tensors = len(set().union(*(worker.tensors for worker in workers)))
        imported.steps = len({stamp for worker in workers for stamp in worker.stamps})
        imported.workers, imported.nodes = len(names), len(self._nodes)
        imported.events = sum(timeline.events for timeline in self._timelines.values())

    def _status(self, started_ns: int, ended_ns: int) -> RunStatus:
        """Return how the run ended; a trial without the mark of its end is not known to be complete."""
        status = "Completed" if self._trial.has_ended else "Interrupted"
        transitions = (Transition("InProgress", started_ns), Transition(status, ended_ns))
        return RunStatus(status, transitions, ended_ns=ended_ns)

    def _worker_document(self, name: str, started_ns: int) -> WorkerDocument:
        worker = self._workers.get(name, ImportedWorker(name))
        timeline = self._timelines.get(name, ImportedTimeline())
        steps = worker.steps or timeline.steps
        is_booster = any(_TREES in collections for collections in map(self._collections.of, worker.tensors))
        return WorkerDocument(
            worker=name,
            started_ns=started_ns,
            framework="xgboost" if is_booster else FORMAT,
            steps=steps,
            step=worker.step if worker.rows else sum(steps.values()) - 1,
            losses=worker.losses,
            time_ns=max(worker.last_ns, timeline.last_ns),
            hyperparameters=worker.hyperparameters,
            state="ended",
            ended_ns=max(worker.last_ns, timeline.last_ns),
            rows=worker.rows,
        )

    def _trial_document(self) -> JsonObject:
        return {
            "format": FORMAT,
            "path": self._trial.path,
            "workers": self._collections.workers,
            "has_mode": self._has_mode,
            "collections": self._collections.entries,
            "reduction_sets": self._reductions,
            "reductions": {
                worker.name: {str(step): index for step, index in worker.reductions.items()}
                for worker in self._workers.values()
            },
            "steps": {worker.name: worker.stamps for worker in self._workers.values()},
            "damage": self._imported.damage,
        }


def _node_document(node: ImportedNode) -> NodeDocument:
    cores = {device for device in node.devices.get("cpu", ()) if device.startswith("core")}
    gpus = tuple(GpuDescription(name="GPU", device=device) for device in sorted(node.devices.get("gpu", ())))
    return NodeDocument(node.name, started_ns=node.first_ns, cpu_count=len(cores) or None, gpus=gpus)


def _step(value: object) -> int | None:
    """Return a number of steps; None if it is none."""
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _items(collections: Mapping[str, Mapping[str, Any]]) -> list[CaptureItem]:
    """Return the capture plan: what the collections of a trial say they save; without settings, nothing."""
    items = []
    for name, entry in collections.items():
        reduction, configs = entry.get("reduction_config") or {}, entry.get("save_config") or {}
        for mode in MODES:
            config = configs.get(mode.upper())
            if not isinstance(config, dict):
                continue
            schedule = Schedule(
                every=_step(config.get("save_interval")),
                start=_step(config.get("start_step")) or 0,
                end=_step(config.get("end_step")),
                steps=tuple(step for step in map(_step, _list(config.get("save_steps"))) if step is not None),
            )
            is_raw = bool(reduction.get("save_raw_tensor", True))
            items.append(CaptureItem(name, statistics=BASIC, raw=is_raw, schedule=schedule, modes=(mode,)))
    return items
