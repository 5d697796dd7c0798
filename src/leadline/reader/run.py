"""Run opened for reading, while it grows or afterwards."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable

from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import DamagedRunError, NotCapturedError, NotYetError, closest
from leadline.profiles.queries import ProfileQueries
from leadline.reader import liveness
from leadline.reader.archive import Archive
from leadline.reader.compacted import streams_of
from leadline.reader.find_runs import find_run, list_runs, read_manifest
from leadline.reader.incarnations import interruptions
from leadline.reader.table_queries import TableQueries
from leadline.reader.tensor import Tensor
from leadline.records.documents import RunStatus, WorkerDocument
from leadline.records.incarnations import Interruption
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED, MODES
from leadline.records.totals import trainings
from leadline.remote import mirror
from leadline.store import layout
from leadline.store.live_display import display_live
from leadline.store.run_html import verdict_html
from leadline.store.run_state import damage_of_trial, damaged_documents, read_workers
from leadline.trials.cache import imported_run
from leadline.trials.remote_trial import fetch_trial

__all__ = ["Run", "list_runs", "open_run", "open_trial"]

_POLL_SECONDS = 0.05


def open_run(path_or_name: str | os.PathLike[str] | None = None, root: str | os.PathLike[str] | None = None) -> Run:
    """Open a run for reading.

    Args:
        path_or_name: A path, the URI of a run in an object store, or a name in the runs directory; None for the latest
            run, ``"-1"`` for the one before. A trial of smdebug is read as by ``open_trial``.
        root: The runs directory; None for ``$LEADLINE_ROOT``, or ``./leadline-runs``.
    Raises:
        RunNotFoundError: There is no such run; the nearest name is suggested.
        DamagedRunError: Its manifest cannot be read.
        StoreError: The object store cannot be read.
    """
    return Run(find_run(path_or_name, root))


def open_trial(path: str | os.PathLike[str]) -> Run:
    """Open a trial that smdebug (SageMaker Debugger) wrote, as the run that it is imported as.

    The import is kept in ``$LEADLINE_CACHE`` (default ``~/.cache/leadline``) and made again when the trial has changed.
    What could not be read is named in ``damage``.

    Args:
        path: The folder of a trial, or of a job with ``debug-output`` and ``profiler-output``; or its URI in an object
            store, ``s3://bucket/job``.
    Raises:
        ConfigurationError: There is no trial at the path, or nothing of it can be read.
        StoreError: The object store cannot be read.
    """
    place = parse_place(os.fspath(path))
    return Run(imported_run(fetch_trial(place) if is_uri(place) else place))


class Run(TableQueries, ProfileQueries):
    """A run. Every ``step`` is a step of a mode: by default a train step, or one of the first mode if it never trained.

    Example:
        >>> run = leadline.open_run()
        >>> run
        Run('example', Completed, 3 tensors, 4 steps)
        >>> run.tensor("loss").value(3)
        array(0.25)

    The tables ``series``, ``scalars`` and ``timeline`` are raw: there ``step`` is the global step, counted over all
    modes, beside ``mode_step``.

    **Consistent**: what is read is a prefix of what was written; ``refresh`` reads new data.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.archive = Archive(self.path)
        mirror.complete(self.path)
        self._manifest = read_manifest(self.path)
        self._is_over = False
        self.refresh()

    def __repr__(self) -> str:
        is_large = self.archive.is_deferred(layout.SERIES)
        steps = "many" if is_large else len(self.steps())
        return f"Run({self.name!r}, {self.status}, {len(self.tensor_names())} tensors, {steps} steps)"

    def _repr_html_(self) -> str:
        return verdict_html(self.path)

    def _ipython_display_(self) -> None:
        display_live(self.path, repr(self))

    @property
    def name(self) -> str:
        """The name of the run."""
        return self._manifest.name

    @property
    def uri(self) -> str:
        """The location of the run."""
        return self.path

    @property
    def manifest(self) -> Manifest:
        """The manifest of the run, as resolved before it started."""
        return self._manifest

    @property
    def status(self) -> str:
        """The current job status: Starting, InProgress, Completed, Failed, Stopping, Stopped or Interrupted.

        If the agent died without a final status: Completed or Failed if all workers recorded their end, Interrupted if
        they died, too.
        """
        return liveness.effective_status(self.path)

    @property
    def status_document(self) -> RunStatus:
        """The status document: ``stopped_by``, ``exit_status``, ``transitions`` …

        If the agent died without a final status, its end is what the workers recorded; see ``status_note``.
        """
        return liveness.effective_document(self.path)

    @property
    def status_note(self) -> str:
        """Why the status is not that of the agent, and whether the exit status is unknown; empty if it is."""
        return liveness.why_derived(self.path)

    def interruptions(self) -> list[Interruption]:
        """Return the interruptions after which the run was resumed, in order."""
        return interruptions(self.path)

    def trainings(self) -> tuple[int, ...]:
        """Return the first train step of each training that the script has made one after another, up to 10,000.

        Another training begins with a new model, optimizer or booster, such as that of the next fold of a
        cross-validation. Of several workers, those of the one with the most are returned. Rules judge each for itself.
        """
        return trainings(self.worker_documents().values())

    @property
    def damage(self) -> list[str]:
        """One line for each part that could not be read, with its path and offset; empty if there is no damage.

        Large runs are read only as far as requested; ``verify`` reads everything.
        """
        return [*damaged_documents(self.path), *self.archive.damage, *damage_of_trial(self.path)]

    def refresh(self) -> Run:
        """Read the data written since the last call; only new bytes are read."""
        mirror.refresh(self.path)
        workers = read_workers(self.path)
        gone = liveness.finished_workers(self.path, workers)
        is_over = self.status in JOB_ENDED
        self.archive.refresh(is_over=is_over, gone=gone)
        self._is_over = is_over
        return self

    def verify(self) -> list[str]:
        """Read everything, including raw tensors; return one line for each part that could not be read."""
        self.refresh()
        self.archive.read_all()
        lines = list(self.damage)
        for tensors in (*self.archive.stored.values(), *self.archive.vectors.values()):
            for tensor in tensors:
                try:
                    tensor.load()
                except DamagedRunError as error:
                    lines.append(str(error))
        return lines

    def workers(self) -> list[str]:
        """Return the workers that have written data or a worker document."""
        documented = set(read_workers(self.path))
        if self.archive.is_deferred(layout.SERIES):
            return sorted(documented | set(streams_of(self.path, layout.SERIES)))
        return sorted({worker for worker, _ in self.archive.series} | documented)

    def worker_documents(self) -> dict[str, WorkerDocument]:
        """Return the worker documents, by worker."""
        return read_workers(self.path)

    def modes(self) -> list[str]:
        """Return the modes in which something was captured; for large runs, the modes of the recorded steps."""
        if self.archive.is_deferred(layout.SERIES):
            return sorted({mode for document in read_workers(self.path).values() for mode in document.steps})
        return sorted({mode for _, mode in self.archive.points()})

    def steps(self, mode: str | None = None) -> list[int]:
        """Return the steps of a mode at which something was captured, in ascending order."""
        steps: dict[str, set[int]] = {}
        for step, step_mode in self.archive.points():
            steps.setdefault(step_mode, set()).add(step)
        return sorted(steps.get(mode or _main_mode(steps), ()))

    def _main_mode(self) -> str:
        return _main_mode({mode for _, mode in self.archive.points()})

    def has_passed(self, step: int, mode: str | None = None) -> bool:
        """Return whether no more data is expected for a step of a mode."""
        return self._is_over or self._complete_step(mode) >= step

    def wait_for_step(self, step: int, timeout: float | None = None, mode: str | None = None) -> None:
        """Wait until a step is complete in every worker.

        Args:
            timeout: Seconds; None for no limit.
            mode: The mode whose step it is.
        Raises:
            NotYetError: The step was not complete in time.
            NotCapturedError: The run ended before the step.
        """
        until = time.monotonic() + timeout if timeout is not None else float("inf")
        while True:
            self.refresh()
            last = self._complete_step(mode)
            if last >= step or step in self.steps(mode):
                if self.has_passed(step, mode):
                    return
            elif self._is_over:
                last = max([last, *self.steps(mode)])
                raise NotCapturedError(f"the run ended before step {step}; the last step is {last}")
            if time.monotonic() >= until:
                raise NotYetError(f"the run has not reached step {step} within {timeout:g} s; try again later")
            time.sleep(_POLL_SECONDS)

    def wait_for_steps(self, steps: Iterable[int], timeout: float | None = None, mode: str | None = None) -> None:
        """Wait until several steps are complete in every worker.

        Args:
            timeout: Seconds, for all steps together; None for no limit.
            mode: The mode whose steps they are.
        Raises:
            NotYetError: A step was not complete in time.
            NotCapturedError: The run ended before the last of the steps.
        """
        last = max(steps, default=None)
        if last is not None:
            self.wait_for_step(last, timeout, mode)

    def _complete_step(self, mode: str | None) -> int:
        """Return the last step of a mode that is complete in every worker that has the mode; -1 before the first."""
        complete = [(self.archive.axis(worker), last) for worker, last in self.archive.complete_step.items()]
        modes = {known for axis, _ in complete for known in axis.modes}
        chosen = mode or _main_mode(modes)
        return min((axis.last_step(chosen, last) for axis, last in complete if chosen in axis.modes), default=-1)

    def collections(self) -> dict[str, list[str]]:
        """Return the names of the captured tensors of each collection.

        Example:
            >>> "gradient/fc.weight" in leadline.open_run().collections()["gradients"]
            True
        """
        members: dict[str, list[str]] = {}
        for name, info in self.archive.infos().items():
            for collection in info.collections:
                members.setdefault(collection, []).append(name)
        return members

    def tensor_names(
        self,
        collection: str | None = None,
        regex: str | None = None,
        step: int | None = None,
        mode: str | None = None,
    ) -> list[str]:
        """Return the names of the captured tensors.

        Example:
            >>> run = leadline.open_run()
            >>> run.tensor_names(regex="weight$")
            ['gradient/fc.weight', 'fc.weight']
            >>> run.tensor_names(step=2, mode="eval")
            ['loss']

        Args:
            collection: Only members of this collection.
            regex: Only names that contain a match (``re.search``).
            step: Only those that were captured at this step, in any worker.
            mode: Only those that were captured in this mode; with ``step``, the mode whose step it is.
        """
        infos = self.archive.infos()
        names = list(dict.fromkeys([*infos, *self.archive.stored, *(name for name, _ in self.archive.vectors)]))
        if collection not in (None, "all"):
            names = [name for name in names if name in infos and collection in infos[name].collections]
        if step is not None or mode is not None:
            captured = self.archive.names_at(step, mode or self._main_mode())
            names = [name for name in names if name in captured]
        return [name for name in names if regex is None or re.search(regex, name)]

    def tensor(self, name: str) -> Tensor:
        """Return a tensor.

        Raises:
            NotYetError: Nothing was captured yet.
            NotCapturedError: The tensor was not captured; the nearest name is suggested.
        """
        info = self.archive.infos().get(name)
        if name not in (known := self.tensor_names()):
            if not known and not self._is_over:
                raise NotYetError("nothing was captured yet; use wait_for_step(0) to wait for the first step")
            nearest = closest(name, known)
            hint = f"did you mean {nearest!r}?" if nearest else "tensor_names() or leadline tensors lists all"
            raise NotCapturedError(f"no tensor named {name!r} was captured; {hint}")
        return Tensor(self.archive, self.has_passed, name, info)


def _main_mode(modes: Collection[str]) -> str:
    """Return the mode whose steps are meant where none is named."""
    return next((known for known in MODES if known in modes), "train")
