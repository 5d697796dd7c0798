"""What was saved at each step of a trial that smdebug wrote, read from its index files as they appear."""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import numpy.typing as npt

from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.errors import DamagedRunError
from leadline.formats.smdebug_json import CollectionEntry
from leadline.store.folder_watch import names_in
from leadline.trials.folder import (
    COLLECTIONS,
    DAMAGE,
    END,
    INDEX,
    Collections,
    IndexFile,
    index_paths,
    parse_index,
    read_collections,
    read_json,
    reason,
)
from leadline.trials.steps import read_record

_REDUCTION: Final = "smdebug/reductions/"
_FETCH_SECONDS: Final = 1.0
_SETTLED_SECONDS: Final = 0.1
"""How long a folder must be unchanged to be taken as such: times of files are as coarse as the kernel's clock ticks."""


class TrialSteps:
    """The saved steps of a trial; see ``StepSource`` for its attributes.

    Args:
        folder: The folder with ``collections``, ``events`` and ``index``.
        fetch: Called before anything is read: brings a copy up to date.

    Attributes:
        damage: A line for each file that cannot be read.
    """

    def __init__(self, folder: str, fetch: Callable[[], object] | None = None) -> None:
        self.folder, self._fetch, self._fetched_at = folder, fetch, time.monotonic()
        self.stamps: dict[int, tuple[ModeKeys, int]] = {}
        self.workers: dict[int, set[str]] = defaultdict(set)
        self.tensors: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.raw: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.num_workers, self.has_ended = 1, False
        self.damage: list[str] = []
        self._index: dict[tuple[int, str], IndexFile] = {}
        self._global_steps: dict[tuple[ModeKeys, int], int] = {}
        self._reductions: dict[tuple[str, int, str], dict[str, str]] = defaultdict(dict)
        self._files: set[str] = set()
        self._collections = Collections()
        self._state: tuple[object, ...] = ()
        self.refresh()

    @property
    def all_workers(self) -> list[str]:
        """The workers, in order; before the first step those of the collections files."""
        return sorted(set().union(*self.workers.values()) or self._announced())

    def refresh(self) -> bool:
        """Read what has been added; return whether there was anything."""
        if self._fetch is not None and time.monotonic() - self._fetched_at > _FETCH_SECONDS:
            self._fetch()
            self._fetched_at = time.monotonic()
        state = self._read_state()
        if state == self._state:
            return False
        self.has_ended = bool(state[0])
        self._collections = read_collections(self.folder, [])
        for path in index_paths(self.folder):
            if path not in self._files:
                self._add(path)
        self.num_workers = max(self._collections.workers, len(self.all_workers), 1)
        latest = max((moment for moment in state if isinstance(moment, float)), default=0.0)
        self._state = state if time.time() - latest > _SETTLED_SECONDS else ()
        return True

    def is_outdated(self) -> bool:
        """Return whether there may be new data."""
        return True

    def refreshed(self) -> TrialSteps | None:
        """Read what has been added; None: nothing was."""
        return self if self.refresh() else None

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        """Return the global step of a step of a mode; None if it was not saved."""
        if mode is ModeKeys.GLOBAL:
            return mode_step if mode_step in self.stamps else None
        return self._global_steps.get((mode, mode_step))

    def value(self, name: str, step: int, worker: str) -> npt.NDArray[Any]:
        """Return the elements of a tensor at a global step.

        Raises:
            DamagedRunError: They cannot be read.
        """
        index = self._index[step, worker]
        try:
            found = read_record(self.folder, index, name)
        except DAMAGE as error:
            raise DamagedRunError(f"{index.events}: {name} cannot be read: {reason(error)}") from None
        if found is None:
            raise DamagedRunError(f"{index.path}: {name} is not in the index file")
        return found.values

    def reductions(self, name: str, step: int, worker: str) -> set[str]:
        """Return the stored reductions of a tensor at a global step: smdebug's names, such as ``abs_max``."""
        return set(self._reductions[name, step, worker])

    def reduction(self, name: str, step: int, worker: str, reduction: str) -> float:
        """Return a stored reduction; see ``value``."""
        values = self.value(self._reductions[name, step, worker][reduction], step, worker)
        return float(values.reshape(-1)[0]) if values.size == 1 else math.nan

    def shape(self, name: str, step: int, worker: str) -> tuple[int, ...] | None:
        """Return the saved shape of a tensor; None: none was saved beside its elements."""
        return self._index[step, worker].shapes.get(name)

    def strangers(self, collection: str) -> frozenset[str]:
        """Return nothing: smdebug's patterns decide over what smdebug wrote."""
        return frozenset()

    def collection_entries(self) -> dict[str, CollectionEntry]:
        """Return the entries of the collections files, with all tensors that they select."""
        entries = {name: entry.copy() for name, entry in self._collections.entries.items()}
        for name, entry in entries.items():
            late = {tensor for tensor in self.tensors if name in self._collections.of(tensor)}
            entry["tensor_names"] = sorted(late.union(entry.get("tensor_names") or ()))
        return entries

    def last_index_file(self, step: int) -> str:
        """Return the path of the last index file up to a global step; empty before the first."""
        found = max((file for file in self._index if file[0] <= step), default=None)
        return os.path.join(self.folder, self._index[found].path) if found else ""

    def _add(self, path: str) -> None:
        place = os.path.relpath(path, self.folder)
        try:
            index = parse_index(place, read_json(path), is_whole=False)
        except DAMAGE as error:
            self.damage.append(f"{place} cannot be read ({reason(error)}); its step is left out")
            return
        self._files.add(path)
        worker = index.worker
        if worker.startswith("_job-"):  # a device of TensorFlow, which no file name could have
            worker = worker.replace("_", "/").replace("-", ":")
        step, stamp = index.step, (ModeKeys[index.mode.upper()], index.mode_step)
        self._index[step, worker] = index
        self._global_steps.setdefault(self.stamps.setdefault(step, stamp), step)
        self.workers[step].add(worker)
        names = {record.name for record in index.records if not record.name.startswith(_REDUCTION)}
        for name in names:
            self.raw[name][step].add(worker)
        for record in index.records:
            reduction, _, tensor = record.name.removeprefix(_REDUCTION).partition("/")
            if record.name.startswith(_REDUCTION):
                name = self._whole_name(tensor, names)
                names.add(name)
                self._reductions[name, step, worker][reduction] = record.name
        for name in (*names, *index.shapes):
            self.tensors[name][step].add(worker)

    def _whole_name(self, name: str, saved: set[str]) -> str:
        """Return the name of a tensor of which a reduction has the name: smdebug leaves numbers such as ``:0`` out."""
        listed = (tensor for entry in self._collections.entries.values() for tensor in entry["tensor_names"])
        if name in saved or name in self.tensors:
            return name
        return next((tensor for tensor in (*saved, *listed) if tensor.partition(":")[0] == name), name)

    def _announced(self) -> set[str]:
        found = set()
        for folder in names_in(os.path.join(self.folder, COLLECTIONS)):
            files = names_in(os.path.join(self.folder, COLLECTIONS, folder))
            found |= {name.removesuffix("_collections.json") for name in files if name.endswith("_collections.json")}
        return found

    def _read_state(self) -> tuple[object, ...]:
        """Return what changes when anything is added: whether the training has ended, and times of the last folders."""
        last = [
            os.path.join(self.folder, part, *names_in(os.path.join(self.folder, part))[-1:])
            for part in (COLLECTIONS, INDEX)
        ]
        times = [os.stat(path).st_mtime for path in last if os.path.exists(path)]
        return os.path.exists(os.path.join(self.folder, END)), *times
