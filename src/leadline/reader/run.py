"""A run, opened for questions, while it grows or afterwards."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import DamagedRunError, MissingExtraError, NotCapturedError, NotYetError, closest
from leadline.reader import liveness, tables
from leadline.reader.archive import Archive
from leadline.reader.feed import CLOCK
from leadline.reader.locate import find_run, list_runs, read_manifest
from leadline.reader.tensor import Tensor
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED

__all__ = ["Run", "list_runs", "open_run"]

_POLL_SECONDS = 0.05


def open_run(path_or_name: str | os.PathLike[str] | None = None, root: str | os.PathLike[str] | None = None) -> Run:
    """Open a run and read what is there.

    Args:
        path_or_name: A path, or a name below the root; None: the run that started last; ``"-1"``: the one before.
        root: Where names are looked up; None: ``$LEADLINE_ROOT``, or ``./leadline-runs``.
    Raises:
        RunNotFoundError: There is no such run; the nearest name is suggested.
        DamagedRunError: Its manifest cannot be read.
    """
    return Run(find_run(path_or_name, root))


class Run:
    """A run. Every ``step`` is a global one, over all modes; a table has the step within the mode beside it.

    What is read is a prefix of what was written; ``refresh`` reads on.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.archive = Archive(self.path)
        self._manifest = read_manifest(self.path)
        self._is_over = False
        self.refresh()

    def __repr__(self) -> str:
        return f"Run({self.name!r}, {self.status}, {len(self.tensor_names())} tensors, {len(self.steps())} steps)"

    @property
    def name(self) -> str:
        """Its name."""
        return self._manifest.name

    @property
    def uri(self) -> str:
        """Where it lies."""
        return self.path

    @property
    def manifest(self) -> Manifest:
        """What it is, as resolved before it started."""
        return self._manifest

    @property
    def status(self) -> str:
        """The job's status at this moment: Starting, InProgress, Completed, Failed, Stopping, Stopped, Interrupted.

        When the agent is gone without a last word: Completed if all workers said that they ended, Interrupted if
        they are gone too.
        """
        return liveness.effective_status(self.path)

    @property
    def status_document(self) -> dict[str, Any]:
        """``status.json`` as the agent wrote it: ``stopped_by``, ``exit_status``, ``transitions`` …"""
        return liveness.read_status(self.path)

    @property
    def damage(self) -> list[str]:
        """One line for each part that could not be read, with its path and offset; empty: all could."""
        return self.archive.damage

    def refresh(self) -> Run:
        """Read what came since the last time; only the new bytes are read."""
        workers = liveness.read_workers(self.path)
        gone = liveness.finished_workers(self.path, workers)
        is_over = self.status in JOB_ENDED
        self.archive.refresh(is_over=is_over, gone=gone)
        self._is_over = is_over
        return self

    def verify(self) -> list[str]:
        """Read everything, also the tensors that were stored whole; what could not be read, a line each."""
        self.refresh()
        lines = list(self.damage)
        for tensors in (*self.archive.stored.values(), *self.archive.vectors.values()):
            for each in tensors:
                try:
                    each.load()
                except DamagedRunError as error:
                    lines.append(str(error))
        return lines

    def workers(self) -> list[str]:
        """The workers that wrote something or spoke of themselves."""
        return sorted({worker for worker, _ in self.archive.shelves} | set(liveness.read_workers(self.path)))

    def worker_documents(self) -> dict[str, dict[str, Any]]:
        """What each worker says of itself."""
        return liveness.read_workers(self.path)

    def modes(self) -> list[str]:
        """The modes in which something was captured."""
        return sorted({mode for _, mode in self.archive.points()})

    def steps(self, mode: str | None = None) -> list[int]:
        """The global steps at which something was captured, ascending."""
        return sorted({step for step, each in self.archive.points() if mode in (None, each)})

    def has_passed(self, step: int) -> bool:
        """Whether nothing more can come of a step."""
        whole = self.archive.complete_step.values()
        return self._is_over or (bool(whole) and min(whole) >= step)

    def wait_for_step(self, step: int, timeout: float | None = None) -> None:
        """Wait until a step is whole in every worker.

        Args:
            timeout: Seconds; None: for ever.
        Raises:
            NotYetError: It was not by then.
            NotCapturedError: The run ended before it.
        """
        until = time.monotonic() + timeout if timeout is not None else float("inf")
        while True:
            self.refresh()
            if min(self.archive.complete_step.values(), default=-1) >= step or step in self.steps():
                if self.has_passed(step):
                    return
            elif self._is_over:
                last = max([-1, *self.archive.complete_step.values(), *self.steps()])
                raise NotCapturedError(f"the run ended before step {step}; its last is {last}")
            if time.monotonic() >= until:
                raise NotYetError(f"the run has not come to step {step} within {timeout:g} s; ask again later")
            time.sleep(_POLL_SECONDS)

    def tensor_names(self, collection: str | None = None, regex: str | None = None) -> list[str]:
        """The tensors of which something was captured.

        Args:
            collection: Only its members.
            regex: Only names that contain a match (``re.search``).
        """
        infos = self.archive.infos()
        names = list(dict.fromkeys([*infos, *self.archive.stored, *(name for name, _ in self.archive.vectors)]))
        if collection not in (None, "all"):
            names = [name for name in names if name in infos and collection in infos[name].collections]
        return [name for name in names if regex is None or re.search(regex, name)]

    def tensor(self, name: str) -> Tensor:
        """One tensor.

        Raises:
            NotYetError: Nothing was captured yet.
            NotCapturedError: Nothing of it was captured; the nearest name is suggested.
        """
        info = self.archive.infos().get(name)
        if name not in (known := self.tensor_names()):
            if not known and not self._is_over:
                raise NotYetError("nothing was captured yet; wait_for_step(0) waits for the first step")
            nearest = closest(name, known)
            hint = f"did you mean {nearest!r}?" if nearest else "tensor_names() lists what was"
            raise NotCapturedError(f"nothing of a tensor named {name!r} was captured; {hint}")
        return Tensor(self, name, info)

    def scalars(self, name: str | None = None, mode: str | None = None) -> pa.Table:
        """Losses, metrics and other single numbers.

        Shape:
            A row a number: ``name, step, mode, mode_step, time_ns, worker, value``, ordered by name and step.
        Units:
            Their own; times in ns since the epoch.
        Not a number:
            As captured.
        Args:
            name: Only this one.
            mode: Only of this mode.
        """
        table = tables.joined(
            self._series(statistic="value", name=name), tables.SERIES, ("name", "step", "worker")
        ).drop_columns(["statistic"])
        return table.filter(pc.equal(table["mode"], mode)) if mode is not None else table

    def series(self) -> pa.Table:
        """Every captured statistic, long: ``name, statistic, step, mode, mode_step, time_ns, worker, value``."""
        return tables.joined(self._series(), tables.SERIES)

    def system_metrics(
        self, kind: str | None = None, device: str | None = None, metric: str | None = None
    ) -> pa.Table:  # fmt: skip
        """What was measured on the nodes.

        Shape:
            A row a sample: ``time_ns, node, kind, device, metric, value``, ordered by time.
        Units:
            As the metric's name ends: ``_percent``, ``_bytes`` …; times in ns since the epoch. What could not be
            read has no row.
        Args:
            kind, device, metric: Only those; None: all.
        """
        found = [tables.system_table(node, batch) for node, each in self.archive.system.items() for batch in each]
        table = tables.joined(found, tables.SYSTEM, ("time_ns",))
        for column, wanted in (("kind", kind), ("device", device), ("metric", metric)):
            if wanted is not None:
                table = table.filter(pc.equal(table[column], wanted))
        return table

    def timeline(self) -> pa.Table:
        """Phases and events of the workers.

        Shape:
            A row an event: ``worker, name, phase, step, start_ns, duration_ns, thread, args``, ordered by start;
            ``args`` is a JSON object.
        Units:
            ns since the epoch, and ns.
        """
        found = [tables.timeline_table(name, batch) for name, each in self.archive.timeline.items() for batch in each]
        return tables.joined(found, tables.TIMELINE, ("start_ns",))

    def findings(self) -> pa.Table:
        """What the run's rules found.

        Shape:
            A row a finding, as it stands: ``rule, id, step, last_step, is_open, time_ns, message, suggestion,
            tensors, tensor_count, worker, count, evidence``, ordered by step; ``evidence`` is a JSON object.
        """
        return tables.findings_table(self.path)

    def sql(self, query: str) -> pa.Table:
        """Ask in SQL (DuckDB's) over ``series``, ``scalars``, ``system``, ``timeline`` and ``findings``.

        Raises:
            MissingExtraError: DuckDB is not installed.
            duckdb.Error: The query is wrong.
        """
        try:
            import duckdb
        except ImportError as error:
            raise MissingExtraError("sql() needs DuckDB; install it with: pip install 'leadline[ui]'") from error
        sources = {
            "series": self.series, "scalars": self.scalars, "system": self.system_metrics,
            "timeline": self.timeline, "findings": self.findings,
        }  # fmt: skip
        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            for name, source in sources.items():
                if re.search(rf"\b{name}\b", query, re.IGNORECASE):
                    connection.register(name, source())
            return connection.sql(query).to_arrow_table()

    def _series(self, statistic: str | None = None, name: str | None = None) -> list[pa.Table]:
        found = []
        for shelf in self.archive.shelves.values():
            for column, (index, each) in enumerate(shelf.layout.columns):
                tensor = shelf.layout.tensors[index].name
                if tensor == CLOCK or statistic not in (None, each) or name not in (None, tensor):
                    continue
                table = tables.column_table(shelf.worker, shelf.batches, column)
                found.append(tables.named(table, tables.SERIES, tensor, each))
        return found
