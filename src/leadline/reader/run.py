"""A run, opened for questions, while it grows or afterwards."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import DamagedRunError, MissingExtraError, NotCapturedError, NotYetError, closest
from leadline.reader import liveness, tables
from leadline.reader.archive import Archive
from leadline.reader.compact import streams_of
from leadline.reader.feed import CLOCK
from leadline.reader.find_runs import find_run, list_runs, read_manifest
from leadline.reader.horovod import read_horovod
from leadline.reader.profiles import BY, Profiles, window_table
from leadline.reader.python_profiles import PythonProfile
from leadline.reader.tensor import Tensor
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED
from leadline.store import layout

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
        is_much = self.archive.is_too_much(layout.SERIES)
        steps = "many" if is_much else len(self.steps())
        return f"Run({self.name!r}, {self.status}, {len(self.tensor_names())} tensors, {steps} steps)"

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
        """One line for each part that could not be read, with its path and offset; empty: all could.

        Of a large run only what somebody has asked for was read; ``verify`` reads everything.
        """
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
        self.archive.read_all()
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
        told = set(liveness.read_workers(self.path))
        if self.archive.is_too_much(layout.SERIES):
            return sorted(told | set(streams_of(self.path, layout.SERIES)))
        return sorted({worker for worker, _ in self.archive.shelves} | told)

    def worker_documents(self) -> dict[str, dict[str, Any]]:
        """What each worker says of itself."""
        return liveness.read_workers(self.path)

    def modes(self) -> list[str]:
        """The modes in which something was captured; of a large run, those in which it made steps."""
        if self.archive.is_too_much(layout.SERIES):
            return sorted(
                {mode for each in liveness.read_workers(self.path).values() for mode in each.get("steps", {})}
            )
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
        self,
        kind: str | None = None,
        device: str | None = None,
        metric: str | None = None,
        *,
        node: str | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> pa.Table:
        """What was measured on the nodes.

        Shape:
            A row a sample: ``time_ns, node, kind, device, metric, value``, ordered by time.
        Units:
            As the metric's name ends: ``_percent``, ``_bytes`` …; times in ns since the epoch. What could not be
            read has no row.
        Args:
            kind, device, metric, node: Only those; None: all.
            start_ns, end_ns: Only samples with ``start_ns <= time_ns < end_ns``; None: no bound.
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
        """Phases and events of the workers.

        Shape:
            A row an event: ``worker, name, phase, step, start_ns, duration_ns, thread, args``, ordered by start;
            ``args`` is a JSON object. Of very fast trainings one step in so many is written, and its row ``step``
            says for how many it stands: ``{"every": 8}``.
        Units:
            ns since the epoch, and ns.
        Args:
            name: Only rows of this name: ``step``, ``data``, ``forward`` …
            worker, phase: Only those; the phase of a step is its mode, that of a start ``initialization``.
            start_step, end_step: Only of steps ``start_step <= step < end_step``; None: no bound.
            start_ns, end_ns: Only what was under way then: it ends behind ``start_ns`` and begins before ``end_ns``.
        """
        found = tables.timeline(self.archive.timeline, worker=worker, name=name, phase=phase)
        found = tables.between(found, "step", start_step, end_step)
        if start_ns is not None:
            ends = pc.add(found["start_ns"], found["duration_ns"])
            found = found.filter(pc.or_(pc.greater(ends, start_ns), pc.equal(found["start_ns"], start_ns)))
        return tables.between(found, "start_ns", None, end_ns)

    @cached_property
    def _profiles(self) -> Profiles:
        return Profiles(self.path)

    def profiles(self) -> pa.Table:
        """The profiling windows that are whole.

        Shape:
            A row a window: ``worker, id, kind, timer, part, first_step, end_step, start_ns, end_ns, bytes, notes``,
            in the order in which they began.
        """
        return window_table(self._profiles.windows())

    def operators(
        self,
        by: Sequence[str] = BY,
        *,
        window: str | None = None,
        worker: str | None = None,
        step: int | tuple[int, int] | None = None,
        phase: str | None = None,
        module: str | None = None,
        device: str | None = None,
    ) -> pa.Table:
        """Operators of detailed windows by what they have in common, the dearest first.

        Shape:
            A row a group: the columns of ``by``, ``calls, total_ns, own_ns, memory_bytes`` and the shares.
        Args:
            by: Columns to group by: ``phase``, ``operator``, ``module``, ``device`` …
            window, worker, phase, device: Only those; None: all.
            step: Only this step, or those from the first to before the second.
            module: Only modules whose name contains a match (``re.search``).
        Raises:
            NotCapturedError: No detailed window is there.
            UnknownNameError: There is no such column or window.
        """
        return self._profiles.operators(
            by, window=window, worker=worker, step=step, phase=phase, module=module, device=device
        )

    def operator_calls(
        self, *, window: str | None = None, worker: str | None = None, step: int | tuple[int, int] | None = None
    ) -> pa.Table:
        """Every operator call of detailed windows.

        Shape:
            A row a call, ordered by start: ``worker, window, step, mode, phase, operator, module, device, start_ns,
            total_ns, own_ns, thread, memory_bytes``.
        Raises:
            NotCapturedError: No detailed window is there.
        """
        return self._profiles.operator_calls(window=window, worker=worker, step=step)

    def out_of_memory(self) -> list[dict[str, Any]]:
        """Whose the memory was each time that it ran out, oldest first.

        Returns:
            Documents with ``step, time_ns, worker, error, categories`` (bytes of parameters, gradients, optimizer
            state, buffers), ``other_bytes`` (activations, batches and the like on accelerators; None: not counted),
            ``modules`` (the same by module, the largest first) and ``devices``.
        """
        return self._profiles.out_of_memory()

    def data_loading(self, *, window: str | None = None, worker: str | None = None) -> pa.Table:
        """What PyTorch's data loaders did in the windows that looked at them.

        Shape:
            A row an event, ordered by start: ``worker, window, event, step, worker_id, num_workers, start_ns,
            duration_ns, bytes, batch_size, ready, pid``. ``event`` is ``fetch`` (a batch made, by the loader's worker
            ``worker_id``, or by the training's process: null), ``wait`` (the training asks for one; ``ready`` batches
            lay there) or ``make_iterator``. Null: nobody knows.
        Raises:
            NotCapturedError: No such window is there.
        """
        return self._profiles.loading(window=window, worker=worker)

    def horovod(self) -> pa.Table:
        """What Horovod told of its work, where ``HOROVOD_TIMELINE`` named a file; as far as it has come.

        Shape:
            A row an activity that has ended: ``worker, tensor, activity, depth, start_ns, duration_ns, args``, ordered
            by start. ``activity`` is Horovod's word: ``NEGOTIATE_ALLREDUCE``, ``ALLREDUCE``, ``NCCL_ALLREDUCE`` …;
            ``depth`` counts the activities of the tensor that it lies within.
        Units:
            ns since the epoch, and ns; Horovod's own clock counts microseconds.
        """
        return read_horovod(self.path)

    def python_profile(
        self,
        *,
        kind: str = "cprofile",
        timer: str = "total",
        part: str = "loop",
        window: str | None = None,
        worker: str | None = None,
        step: int | tuple[int, int] | None = None,
        time_ns: tuple[int, int] | None = None,
        mode: str | None = None,
        phase: str | None = None,
        between: tuple[str, str] | None = None,
    ) -> PythonProfile:
        """Python functions of some slices of the Python profiles.

        Args:
            kind: ``cprofile`` or ``pyinstrument``.
            timer: Of cProfile: ``total``, ``cpu`` or ``off_cpu``.
            part: Which part of the run the window is of.
            window, worker, mode, phase: Only those; None: all.
            step: Only this step, or those from the first to before the second.
            time_ns: Only what went on between two times.
            between: Only the steps of the second mode that follow one of the first.
        Raises:
            NotCapturedError: No such window is there.
            UnknownNameError: There is no such profiler, timer or window.
        """
        return self._profiles.python(
            kind=kind,
            timer=timer,
            part=part,
            window=window,
            worker=worker,
            step=step,
            time_ns=time_ns,
            mode=mode,
            phase=phase,
            between=between,
        )

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
        found = []
        for shelf in self.archive.shelves.values():
            for column, (index, each) in enumerate(shelf.layout.columns):
                tensor = shelf.layout.tensors[index].name
                if tensor == CLOCK or statistic not in (None, each) or name not in (None, tensor):
                    continue
                table = tables.column_table(shelf.worker, shelf.batches, column)
                found.append(tables.named(table, tables.SERIES, tensor, each))
        return found
