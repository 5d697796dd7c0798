"""What all trials of smdebug's interface have in common."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from functools import partial

from leadline.compat.smdebug.core.collection import Collection
from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.core.tensor import StepState, Tensor
from leadline.compat.smdebug.exceptions import NoMoreData, StepUnavailable, TensorUnavailable
from leadline.compat.smdebug.pending_writes import flush
from leadline.compat.smdebug.run_step_source import SavedSteps
from leadline.compat.smdebug.step_source import StepSource
from leadline.compat.smdebug.trial_step_source import TrialSteps
from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import ConfigurationError, RunNotFoundError
from leadline.reader.run import open_run
from leadline.store import layout
from leadline.trials.folder import COLLECTIONS, TENSORS_OF_JOB
from leadline.trials.remote_trial import fetch_trial, is_remote_trial

logger = get_logger()
_POLL_SECONDS = 0.5
_WAIT_SECONDS = 2.0


class Trial:
    """A trial: its steps, tensors, collections and workers.

    Attributes:
        dynamic_refresh: Whether new data is read at each call, until the training has ended.
    """

    def __init__(
        self, path: str, name: str | None = None, range_steps: tuple[int | None, int | None] | None = None
    ) -> None:
        start, end = range_steps or (None, None)
        if start is not None and end is not None and start >= end:
            raise ValueError(f"range_steps {range_steps}: the end must be greater than the start")
        self.path, self.name = path, name or os.path.basename(os.path.normpath(path))
        self.range_steps = range_steps
        self.dynamic_refresh = True
        self._start, self._end = start or 0, end
        self._saved = _open(path)
        self._collections: dict[str, Collection] = {}
        self._read_collections()

    def __repr__(self) -> str:
        return f"Trial({self.name!r}, {len(self.tensor_names())} tensors, {len(self.steps())} steps)"

    @property
    def saved(self) -> StepSource:
        """What was saved so far; new data is read if the training has not ended."""
        if self.dynamic_refresh and not self._saved.has_ended and self._saved.is_outdated():
            refreshed = self._saved.refreshed()
            if refreshed is not None:
                self._saved = refreshed
                self._read_collections()
        return self._saved

    @property
    def loaded_all_steps(self) -> bool:
        """Whether nothing more will be saved."""
        return self.saved.has_ended

    @property
    def num_workers(self) -> int:
        """The number of workers of the training."""
        return self.saved.num_workers

    @property
    def workers_for_global_step(self) -> dict[int, set[str]]:
        """The workers that saved anything at each global step."""
        return dict(self.saved.workers)

    @property
    def last_complete_step(self) -> int:
        """The last global step that all workers saved; -1 before the first."""
        saved = self.saved
        return max((step for step, workers in saved.workers.items() if len(workers) >= saved.num_workers), default=-1)

    @property
    def last_index_token(self) -> str:
        """The path of the last index file up to ``last_complete_step``; empty for a run of Leadline."""
        return self.saved.last_index_file(self.last_complete_step)

    def workers(self) -> list[str]:
        """Return the workers, in order."""
        return self.saved.all_workers

    def modes(self) -> set[ModeKeys]:
        """Return the modes of the saved steps, without ``GLOBAL``."""
        return {mode for mode, _ in self.saved.stamps.values()} - {ModeKeys.GLOBAL}

    def steps(self, mode: ModeKeys = ModeKeys.GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the saved steps of a mode, in ascending order; those of ``GLOBAL`` are global steps.

        Args:
            show_incomplete_steps: Also those that some workers have not saved yet.
        """
        saved = self.saved
        complete = self.last_complete_step
        known = [
            step
            for step in saved.stamps
            if self._is_in_range(step) and (show_incomplete_steps or saved.has_ended or step <= complete)
        ]
        if mode is ModeKeys.GLOBAL:
            return sorted(known)
        return sorted(saved.stamps[step][1] for step in known if saved.stamps[step][0] is mode)

    def mode(self, global_step: int) -> ModeKeys | None:
        """Return the mode of a global step; None if it was not saved."""
        stamp = self.saved.stamps.get(global_step)
        return stamp and stamp[0]

    def mode_step(self, global_step: int) -> int | None:
        """Return the step within its mode of a global step; None if it was not saved."""
        stamp = self.saved.stamps.get(global_step)
        return stamp and stamp[1]

    def mode_modestep(self, global_step: int) -> tuple[ModeKeys | None, int | None]:
        """Return both."""
        return self.saved.stamps.get(global_step, (None, None))

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        """Return the global step of a step of a mode; None if it was not saved."""
        step = self.saved.global_step(mode, mode_step)
        return step if step is not None and self._is_in_range(step) else None

    def tensor_names(
        self,
        show_prefixed_tensors: bool = False,
        *,
        step: int | None = None,
        mode: ModeKeys = ModeKeys.GLOBAL,
        regex: str | list[str] | None = None,
        collection: str | Collection | None = None,
    ) -> list[str]:
        """Return the names of the tensors, in order.

        Args:
            show_prefixed_tensors: Changes nothing: reductions are listed under the names of their tensors.
            step: Only those saved at this step of the mode.
            mode: Only those saved in this mode.
            regex: Only those whose name contains a match of any.
            collection: Only members of this collection; not together with ``regex``.
        Raises:
            ValueError: Both ``regex`` and ``collection`` are given.
        """
        if regex is not None and collection is not None:
            raise ValueError("give either regex or collection, not both")
        names = sorted(self._names_at(step, mode))
        if collection is not None:
            members = collection if isinstance(collection, Collection) else self.collection(collection)
            others = self.saved.strangers(members.name)
            return [name for name in names if members.matches(name) and name not in others]
        patterns = [regex] if isinstance(regex, str) else regex
        return [name for name in names if patterns is None or any(re.search(pattern, name) for pattern in patterns)]

    def _names_at(self, step: int | None, mode: ModeKeys) -> Iterable[str]:
        saved = self.saved
        wanted = {step} if step is not None else set(self.steps(mode, show_incomplete_steps=True))
        global_steps = {self.global_step(mode, one) for one in wanted}
        return (name for name, at in saved.tensors.items() if not global_steps.isdisjoint(at))

    def has_tensor(self, tname: str) -> bool:
        """Return whether anything of a tensor was saved."""
        return tname in self.tensor_names()

    def tensor(self, tname: str) -> Tensor:
        """Return a tensor.

        Raises:
            TensorUnavailable: Nothing of it was saved.
        """
        if not self.has_tensor(tname):
            raise TensorUnavailable(tname)
        return Tensor(self, tname)

    def inputs(self, step: int | None = None, mode: ModeKeys = ModeKeys.GLOBAL) -> list[str]:
        """Return the names of the tensors of collection ``inputs``."""
        return self.tensor_names(step=step, mode=mode, collection="inputs")

    def labels(self, step: int | None = None, mode: ModeKeys = ModeKeys.GLOBAL) -> list[str]:
        """Return the names of the labels."""
        return self.tensor_names(step=step, mode=mode, regex="labels*")

    def predictions(self, step: int | None = None, mode: ModeKeys = ModeKeys.GLOBAL) -> list[str]:
        """Return the names of the predictions."""
        return self.tensor_names(step=step, mode=mode, regex="predictions")

    def collections(self) -> dict[str, Collection]:
        """Return the collections by name."""
        return self._collections

    def collection(self, coll_name: str) -> Collection:
        """Return a collection; a new one without members if there is none."""
        return self._collections.setdefault(coll_name, Collection(coll_name))

    def has_passed_step(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> StepState:
        """Return whether a step was saved, may still be, or will not be."""
        saved = self.saved
        later = [known for known in self.steps(mode, show_incomplete_steps=True) if known >= step]
        if not later:
            return StepState.UNAVAILABLE if saved.has_ended else StepState.NOT_YET_AVAILABLE
        at = self.global_step(mode, later[0])
        is_passed = saved.has_ended or (at is not None and at <= self.last_complete_step)
        if later[0] > step:
            return StepState.UNAVAILABLE if is_passed else StepState.NOT_YET_AVAILABLE
        is_whole = at is not None and len(saved.workers[at]) >= saved.num_workers
        return StepState.AVAILABLE if is_passed or is_whole else StepState.NOT_YET_AVAILABLE

    def wait_for_steps(self, required_steps: Iterable[int], mode: ModeKeys = ModeKeys.GLOBAL) -> None:
        """Wait until steps were saved.

        Raises:
            StepUnavailable: Nothing was saved at a step, and the training has passed it.
            NoMoreData: The training has ended before a step.
        """
        for step in required_steps:
            while (state := self.has_passed_step(step, mode)) is not StepState.AVAILABLE:
                if state is StepState.UNAVAILABLE:
                    last = max(self.steps(mode), default=-1)
                    if self.loaded_all_steps and step >= last:
                        raise NoMoreData(step, mode, last)
                    raise StepUnavailable(step, mode)
                time.sleep(_POLL_SECONDS)

    def _is_in_range(self, step: int) -> bool:
        return self._start <= step and (self._end is None or step < self._end)

    def _read_collections(self) -> None:
        """Read the collections; those that the script has changed keep their further members."""
        for name, entry in self._saved.collection_entries().items():
            members, patterns = set(entry["tensor_names"]), list(entry.get("include_regex") or ())
            if name in self._collections:
                self._collections[name].tensor_names |= members
                continue
            configs = entry.get("reduction_config"), entry.get("save_config")
            self._collections[name] = Collection(
                name, patterns, members, *configs, save_histogram=bool(entry.get("save_histogram", True))
            )


def _open(path: str) -> StepSource:
    """Open what smdebug writes by its index files, and anything else by Leadline's reader."""
    reopen = partial(_open, path)
    path = parse_place(flush(path))
    if is_uri(path):
        return _open_remote(path, reopen)
    if not layout.is_run(path):
        folders = [path, os.path.join(path, TENSORS_OF_JOB)]
        tensors = next((folder for folder in folders if os.path.isdir(os.path.join(folder, COLLECTIONS))), None)
        if tensors is not None:
            return TrialSteps(tensors)
    return SavedSteps(open_run(path), reopen)


def _open_remote(uri: str, reopen: Callable[[], StepSource]) -> StepSource:
    """Open the trial or the run at a URI; wait until there is one."""
    is_waiting = False
    while True:
        if is_remote_trial(uri):
            folder = fetch_trial(uri)
            inner = os.path.join(folder, TENSORS_OF_JOB)
            return TrialSteps(inner if os.path.isdir(inner) else folder, lambda: fetch_trial(uri))
        try:
            return SavedSteps(open_run(uri), reopen)
        except ConfigurationError:
            if not is_remote_trial(uri):  # else the first part of a trial has come meanwhile
                raise
        except RunNotFoundError:
            if not is_waiting:
                logger.warning("waiting for the first tensors at %s", uri)
            is_waiting = True
            time.sleep(_WAIT_SECONDS)


def check_options(others: Iterable[str]) -> None:
    unknown = set(others) - {"check", "cache", "index_mode", "parallel"}
    if unknown:
        raise TypeError(f"a trial has no options {', '.join(sorted(unknown))}")
