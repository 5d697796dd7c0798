"""Run opened for reading, while it grows or afterwards."""

from __future__ import annotations

import os
import re
import time

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import DamagedRunError, MissingExtraError, NotCapturedError, NotYetError, closest
from leadline.reader import liveness, tables
from leadline.reader.archive import Archive
from leadline.reader.compacted import streams_of
from leadline.reader.feed import CLOCK
from leadline.reader.find_runs import find_run, list_runs, read_manifest
from leadline.reader.profiles import ProfileQueries
from leadline.reader.tensor import Tensor
from leadline.records.documents import RunStatus, WorkerDocument
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED, MODES
from leadline.store import layout
from leadline.store.run_state import damaged_documents, read_workers

__all__ = ["Run", "list_runs", "open_run"]

_POLL_SECONDS = 0.05


def open_run(path_or_name: str | os.PathLike[str] | None = None, root: str | os.PathLike[str] | None = None) -> Run:
    """Open a run for reading.

    Args:
        path_or_name: A path, or a name in the runs directory; None for the latest run, ``"-1"`` for the one before.
        root: The runs directory; None for ``$LEADLINE_ROOT``, or ``./leadline-runs``.
    Raises:
        RunNotFoundError: There is no such run; the nearest name is suggested.
        DamagedRunError: Its manifest cannot be read.
    """
    return Run(find_run(path_or_name, root))


class Run(ProfileQueries):
    """A run. Every ``step`` is a step of a mode: by default a train step, or one of the first mode if it never trained.

    The tables ``series``, ``scalars`` and ``timeline`` are raw: there ``step`` is the global step, counted over all
    modes, beside ``mode_step``.

    **Consistent**: what is read is a prefix of what was written; ``refresh`` reads new data.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.archive = Archive(self.path)
        self._manifest = read_manifest(self.path)
        self._is_over = False
        self.refresh()

    def __repr__(self) -> str:
        is_large = self.archive.is_deferred(layout.SERIES)
        steps = "many" if is_large else len(self.steps())
        return f"Run({self.name!r}, {self.status}, {len(self.tensor_names())} tensors, {steps} steps)"

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

    @property
    def damage(self) -> list[str]:
        """One line for each part that could not be read, with its path and offset; empty if there is no damage.

        Large runs are read only as far as requested; ``verify`` reads everything.
        """
        return [*damaged_documents(self.path), *self.archive.damage]

    def refresh(self) -> Run:
        """Read the data written since the last call; only new bytes are read."""
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
        chosen = mode or next((known for known in MODES if known in steps), "train")
        return sorted(steps.get(chosen, ()))

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

    def _complete_step(self, mode: str | None) -> int:
        """Return the last step of a mode that is complete in every worker that has the mode; -1 before the first."""
        complete = [(self.archive.axis(worker), last) for worker, last in self.archive.complete_step.items()]
        modes = {known for axis, _ in complete for known in axis.modes}
        chosen = mode or next((known for known in MODES if known in modes), "train")
        return min((axis.last_step(chosen, last) for axis, last in complete if chosen in axis.modes), default=-1)

    def tensor_names(self, collection: str | None = None, regex: str | None = None) -> list[str]:
        """Return the names of the captured tensors.

        Args:
            collection: Only members of this collection.
            regex: Only names that contain a match (``re.search``).
        """
        infos = self.archive.infos()
        names = list(dict.fromkeys([*infos, *self.archive.stored, *(name for name, _ in self.archive.vectors)]))
        if collection not in (None, "all"):
            names = [name for name in names if name in infos and collection in infos[name].collections]
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
            hint = f"did you mean {nearest!r}?" if nearest else "tensor_names() lists the captured tensors"
            raise NotCapturedError(f"no tensor named {name!r} was captured; {hint}")
        return Tensor(self, name, info)

    def scalars(self, name: str | None = None, mode: str | None = None) -> pa.Table:
        """Return losses, metrics and other scalars.

        Shape:
            One row per value: ``name, step`` (the global step)``, mode, mode_step, time_ns, worker, value``, ordered by
            name and step.
        Units:
            As captured; times in ns since the epoch.
        Not a number:
            As captured.
        Args:
            name: Only this scalar.
            mode: Only this mode.
        """
        table = tables.concatenate(
            self._series(statistic="value", name=name), tables.SERIES, ("name", "step", "worker")
        ).drop_columns(["statistic"])
        return table.filter(pc.equal(table["mode"], mode)) if mode is not None else table

    def series(self) -> pa.Table:
        """Return all captured statistics: ``name, statistic, step, mode, mode_step, time_ns, worker, value``."""
        return tables.concatenate(self._series(), tables.SERIES)

    def system_metrics(
        self,
        kind: str | None = None,
        device: str | None = None,
        metric: str | None = None,
        *,
        node: str | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> pa.Table:
        """Return the system metrics of the nodes.

        Shape:
            One row per sample: ``time_ns, node, kind, device, metric, value``, ordered by time.
        Units:
            As in the suffix of the metric: ``_percent``, ``_bytes`` …; times in ns since the epoch. Values that could
            not be read have no row.
        Args:
            kind, device, metric, node: Only these; None for all.
            start_ns, end_ns: Only samples with ``start_ns <= time_ns < end_ns``; None for no limit.
        """
        return tables.system_metrics(
            self.archive.system, kind=kind, device=device, metric=metric, node=node, start_ns=start_ns, end_ns=end_ns
        )

    def timeline(
        self,
        name: str | None = None,
        *,
        worker: str | None = None,
        phase: str | None = None,
        start_step: int | None = None,
        end_step: int | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> pa.Table:
        """Return the phases and events of the workers.

        Shape:
            One row per event: ``worker, name, phase, step`` (the global step)``, start_ns, duration_ns, thread, args``,
            ordered by start; ``args`` is a JSON object. In very fast trainings only every Nth step is written; the
            ``args`` of its row
            ``step`` contain the number of steps that it represents: ``{"every": 8}``.
        Units:
            ns since the epoch, and ns.
        Args:
            name: Only rows of this name: ``step``, ``data``, ``forward`` …
            worker, phase: Only these; the phase of a step is its mode, the phase of the startup ``initialization``.
            start_step, end_step: Only global steps ``start_step <= step < end_step``; None for no limit.
            start_ns, end_ns: Only rows that overlap the interval: they end after ``start_ns`` and start before
                ``end_ns``.
        """
        rows = tables.timeline(self.archive.timeline, worker=worker, name=name, phase=phase)
        rows = tables.between(rows, "step", start_step, end_step)
        if start_ns is not None:
            ends = pc.add(rows["start_ns"], rows["duration_ns"])
            rows = rows.filter(pc.or_(pc.greater(ends, start_ns), pc.equal(rows["start_ns"], start_ns)))
        return tables.between(rows, "start_ns", None, end_ns)

    def findings(self) -> pa.Table:
        """Return the findings of the run's rules.

        Shape:
            One row per finding, in its latest version: ``rule, id, step, last_step, is_open, time_ns, message,
            suggestion, tensors, tensor_count, worker, count, evidence, global_step``, ordered by step; ``step`` and
            ``last_step`` are train steps, and ``evidence`` is a JSON object.
        """
        return tables.findings_table(self.path)

    def sql(self, query: str) -> pa.Table:
        """Run a DuckDB query on the tables ``series``, ``scalars``, ``system``, ``timeline`` and ``findings``.

        Raises:
            MissingExtraError: DuckDB is not installed.
            duckdb.Error: The query is invalid.
        """
        try:
            import duckdb
        except ImportError as error:
            raise MissingExtraError("sql() needs DuckDB; install it with: pip install 'leadline[ui]'") from error
        sources = {
            "series": self.series,
            "scalars": self.scalars,
            "system": self.system_metrics,
            "timeline": self.timeline,
            "findings": self.findings,
        }
        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            for name, source in sources.items():
                if re.search(rf"\b{name}\b", query, re.IGNORECASE):
                    connection.register(name, source())
            return connection.sql(query).to_arrow_table()

    def _series(self, statistic: str | None = None, name: str | None = None) -> list[pa.Table]:
        parts = []
        for stream in self.archive.series.values():
            for column, (index, statistic_name) in enumerate(stream.layout.columns):
                tensor = stream.layout.tensors[index].name
                if tensor == CLOCK or statistic not in (None, statistic_name) or name not in (None, tensor):
                    continue
                table = tables.column_table(stream.worker, stream.batches, column)
                parts.append(tables.with_text_columns(table, tables.SERIES, tensor, statistic_name))
        return parts
