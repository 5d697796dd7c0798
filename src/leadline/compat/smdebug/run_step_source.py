"""What was saved at each step of a run, by global step as smdebug counts."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.keras_names import MEAN_LOSS, smdebug_name
from leadline.compat.smdebug.step_source import StepSource
from leadline.compat.smdebug.trial_naming import KERAS, OF_FRAMEWORK, XGBOOST, naming_of
from leadline.formats.event_file import nanoseconds
from leadline.formats.smdebug_json import CollectionEntry
from leadline.reader.feed import CLOCK
from leadline.reader.run import Run
from leadline.reader.tensor import Tensor
from leadline.records.json_object import JsonObject
from leadline.records.names import FULL_SHAP, GRADIENT_NORMS, JOB_ENDED, OPTIMIZER_VARIABLES, rank_of
from leadline.records.series import SeriesLayout
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.trials.steps import leadline_statistic

REDUCTIONS: Final = ("min", "max", "mean", "std", "variance", "sum", "prod", "l1", "l2")
_POLL_SECONDS: Final = 0.5
HYPERPARAMETERS: Final = "hyperparameters"
SCALAR_PREFIX: Final = "scalar/"
_OF_MODEL: Final = frozenset({"weights", "biases", "gradients", "losses"})
"""The collections whose usual patterns match the names of an optimizer's state as well."""
_LAYERS: Final = "layers"
_DEVICE: Final = "_job-"
_WITHOUT_MODE: Final = "train"


class SavedSteps:
    """The saved steps of a run; see ``StepSource`` for its attributes.

    Args:
        reopen: Opens the run again when it is refreshed; None: it never is.
    """

    def __init__(self, run: Run, reopen: Callable[[], StepSource] | None = None) -> None:
        self.run, self._reopen = run, reopen
        self._read_at = time.monotonic()
        self.stamps: dict[int, tuple[ModeKeys, int]] = {}
        self.workers: dict[int, set[str]] = defaultdict(set)
        self.tensors: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.raw: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        document = read_document(os.path.join(run.path, layout.TRIAL))
        self.trial: JsonObject = document if isinstance(document, dict) else {}
        hook = read_document(os.path.join(run.path, layout.HOOK_COLLECTIONS))
        self.hook: JsonObject = hook if isinstance(hook, dict) else {}
        """What a hook of this interface recorded of itself: ``collections`` and ``names``."""
        workers = run.worker_documents().values()
        self._names = self.hook.get("names")
        if self._names == OF_FRAMEWORK:
            self._names = naming_of(worker.framework for worker in workers)
        self._features = self.hook.get("features") or next((w.features for w in workers if w.features), ())
        given = self.hook.get(HYPERPARAMETERS) or {}
        self._given = {f"{HYPERPARAMETERS}/{name}": value for name, value in given.items()}
        """The hyperparameters that a script gave to its hook."""
        norms = run.collections().get(GRADIENT_NORMS, ()) if self.hook else ()
        self._hidden = frozenset((*norms, *([MEAN_LOSS] if self._names == KERAS else ())))
        """What no hook saves, but has a name that one of its collections would match."""
        self._shown: dict[str, str] = {}
        self._originals: dict[str, str] = {}
        self._workers: dict[str, str] = {}
        self._has_mode = bool(self.trial.get("has_mode", True))
        self._global_steps: dict[tuple[ModeKeys, int], int] = {}
        self._statistics: dict[tuple[str, int, str], set[str]] = defaultdict(set)
        self._read()
        self.num_workers = max(int(self.trial.get("workers") or 0), len(self.all_workers), 1)
        is_open = bool(self.trial) and run.status == "Interrupted"
        self.has_ended = run.status in JOB_ENDED and not is_open

    @property
    def all_workers(self) -> list[str]:
        """The workers, as smdebug names them."""
        return sorted(set().union(*self.workers.values()) if self.workers else ())

    def mode_of(self, mode: str) -> ModeKeys:
        """Return smdebug's mode of a mode of the run."""
        return ModeKeys[mode.upper()] if self._has_mode or mode != _WITHOUT_MODE else ModeKeys.GLOBAL

    def run_mode(self, mode: ModeKeys) -> str:
        """Return the run's mode of a mode of smdebug."""
        return mode.name.lower() if self._has_mode or mode is not ModeKeys.GLOBAL else _WITHOUT_MODE

    def shown_names(self, name: str) -> list[str]:
        """Return smdebug's names of a tensor of the run: of all SHAP values one for each feature, of some none."""
        if name in self._hidden:
            return []
        if self._names == XGBOOST and name == FULL_SHAP:
            shown = [f"{FULL_SHAP}/{feature}" for feature in self._features]
            self._originals |= dict.fromkeys(shown, name)
            return shown
        return [self.shown_name(name)]

    def shown_name(self, name: str) -> str:
        """Return smdebug's name of a tensor of the run."""
        if self._names != KERAS:
            return name
        if name not in self._shown:
            shown = smdebug_name(name)
            shown = name if shown in self._originals else shown  # of two models with equal layers
            self._shown[name], self._originals[shown] = shown, name
        return self._shown[name]

    def is_outdated(self) -> bool:
        """Return whether the run was read a while ago."""
        return time.monotonic() - self._read_at >= _POLL_SECONDS

    def refreshed(self) -> StepSource | None:
        """Return the run as it is now."""
        return None if self._reopen is None else self._reopen()

    def value(self, name: str, step: int, worker: str) -> npt.NDArray[Any]:
        """Return the elements of a tensor at a global step; of a number that no framework has as tensor, one element.

        Raises:
            DamagedRunError: They cannot be read.
        """
        if name in self._given:
            return np.array([self._given[name]])
        mode, mode_step = self.stamps[step]
        values = self.tensor(name).value(mode_step, worker=self.run_worker(worker), mode=self.run_mode(mode))
        is_number = self._names == XGBOOST or name.startswith(SCALAR_PREFIX)
        return values.reshape(1) if is_number and values.ndim == 0 else values

    def reduction(self, name: str, step: int, worker: str, reduction: str) -> float:
        """Return a stored reduction of a tensor at a global step."""
        mode, mode_step = self.stamps[step]
        where = {"worker": self.run_worker(worker), "mode": self.run_mode(mode)}
        return self.tensor(name).statistic(leadline_statistic(reduction), mode_step, **where)

    def shape(self, name: str, step: int, worker: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor; None if it is unknown."""
        return self.tensor(name).shape or None

    def timestamp_ns(self, name: str, step: int) -> int | None:
        """Return the time that the script gave to a number at a global step; None: it gave none."""
        given = self.hook.get("timestamps", {}).get(name, {})
        found = given.get(str(step), given.get(str(step + 1)))  # what follows the last step is saved with it
        return None if found is None else nanoseconds(float(found))

    def last_index_file(self, step: int) -> str:
        """Return nothing: a run has no index files."""
        return ""

    def collection_entries(self) -> dict[str, CollectionEntry]:
        """Return the collections as in a collections file."""
        if self.trial:
            return {str(name): cast(CollectionEntry, dict(entry)) for name, entry in self.trial["collections"].items()}
        entries: dict[str, CollectionEntry] = {"all": {"include_regex": [".*"]}}
        entries |= {
            str(name): cast(CollectionEntry, dict(entry)) for name, entry in self.hook.get("collections", {}).items()
        }
        for name, members in self.members().items():
            entries.setdefault(name, {})["tensor_names"] = members
        for name, entry in entries.items():
            patterns = [re.compile(pattern) for pattern in entry.get("include_regex") or ()]
            found = {tensor for tensor in self.tensors if any(pattern.search(tensor) for pattern in patterns)}
            found -= self.strangers(name)
            entry["tensor_names"] = found.union(entry.get("tensor_names") or ()) & self.tensors.keys()
        return entries

    def strangers(self, collection: str) -> frozenset[str]:
        """Return what is no member of a collection, though a pattern of it or Leadline's own collection says so.

        An optimizer's moment of a bias is no bias; and what Keras gives to a model and its loss is of no layer.
        """
        if collection == _LAYERS and self._names == KERAS:
            return frozenset(shown for shown in self.members().get(_LAYERS, ()) if "/" not in shown)
        states = self.run.collections().get(OPTIMIZER_VARIABLES, ()) if collection in _OF_MODEL else ()
        return frozenset(shown for name in states for shown in self.shown_names(name))

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of the run by smdebug's name."""
        return self.run.tensor(self.original_name(name))

    def original_name(self, name: str) -> str:
        """Return the name in the run of a tensor by smdebug's name."""
        return self._originals.get(name, name)

    def members(self) -> dict[str, list[str]]:
        """Return the names of the tensors in each collection of the run."""
        members = {
            name: [shown for member in known for shown in self.shown_names(member)]
            for name, known in self.run.collections().items()
        }
        if self._given:
            members[HYPERPARAMETERS] = sorted({*members.get(HYPERPARAMETERS, ()), *self._given})
        return members

    def run_worker(self, worker: str) -> str:
        """Return the name in the run of a worker by smdebug's name."""
        return self._workers.get(worker, worker)

    def _shown_worker(self, worker: str) -> str:
        """Return a worker as smdebug names it.

        A device of TensorFlow has slashes and colons, which no file name has; a hook's worker is named by its rank.
        """
        shown, rank = worker, rank_of(worker)
        if worker.startswith(_DEVICE):
            shown = worker.replace("_", "/").replace("-", ":")
        elif self.hook and rank is not None and self._workers.get(f"worker_{rank}", worker) == worker:
            shown = f"worker_{rank}"
        self._workers[shown] = worker
        return shown

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        """Return the global step of a step of a mode; None if it was not saved."""
        if mode is ModeKeys.GLOBAL:
            return mode_step if mode_step in self.stamps else None
        return self._global_steps.get((mode, mode_step))

    def reductions(self, name: str, step: int, worker: str) -> set[str]:
        """Return the stored reductions of a tensor at a global step: smdebug's names, such as ``abs_max``."""
        if not self.trial:
            return self._statistics[name, step, worker]
        index = self.trial["reductions"].get(self.run_worker(worker), {}).get(str(step))
        return set() if index is None else set(self.trial["reduction_sets"][index].get(name, ()))

    def _read(self) -> None:
        reductions = {*REDUCTIONS, *(f"abs_{name}" for name in REDUCTIONS)}
        for stream in self.run.archive.series.values():
            names = [info.name for info in stream.layout.tensors if info.name != CLOCK]
            names = [shown for name in names for shown in self.shown_names(name)]
            columns = [
                (shown, statistic) for name, statistic in _columns(stream.layout) for shown in self.shown_names(name)
            ]
            worker = self._shown_worker(stream.worker)
            for batches in stream.batches if names else ():
                mode_steps = batches.numbers("mode_step").tolist()
                rows = zip(batches.numbers("step").tolist(), batches.texts("mode"), mode_steps, strict=True)
                for step, mode, mode_step in rows:
                    self._add_step(step, mode, mode_step, worker)
                    for name in names:
                        self.tensors[name][step].add(worker)
                    for name, statistic in columns:
                        if statistic == "value":
                            self.raw[name][step].add(worker)
                        elif statistic in reductions:
                            self._statistics[name, step, worker].add(statistic)
        for original, stored in self.run.archive.stored.items():
            names = self.shown_names(original)
            for tensor in stored:
                worker = self._shown_worker(tensor.worker)
                self._add_step(tensor.step, tensor.mode, self.run.archive.step_of(tensor), worker)
                for name in names:
                    self.tensors[name][tensor.step].add(worker)
                    self.raw[name][tensor.step].add(worker)
        self._add_given()

    def _add_given(self) -> None:
        """Save the hyperparameters of the script at the steps at which those of the booster were saved."""
        known = [held for name, held in self.raw.items() if name.startswith(f"{HYPERPARAMETERS}/")]
        steps = {step: workers for held in known for step, workers in held.items()}
        for name in self._given if steps else ():
            for places in (self.tensors, self.raw):
                places[name].update({step: set(workers) for step, workers in steps.items()})

    def _add_step(self, step: int, mode: str, mode_step: int, worker: str) -> None:
        stamp = self.stamps.setdefault(step, (self.mode_of(mode), mode_step))
        self._global_steps.setdefault(stamp, step)
        self.workers[step].add(worker)


def _columns(shared: SeriesLayout) -> list[tuple[str, str]]:
    """Return the name and statistic of each column."""
    columns = ((shared.tensors[index].name, statistic) for index, statistic in shared.columns)
    return [(name, statistic) for name, statistic in columns if name != CLOCK]
