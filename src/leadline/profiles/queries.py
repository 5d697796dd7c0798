"""Recorded profile windows of a run: queries for operators, Python functions, data loading and Horovod."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import NotCapturedError, UnknownNameError
from leadline.profiles.horovod import read_horovod
from leadline.profiles.python_profiles import CallTrees, FunctionTables, ProfileQuery, PythonProfile
from leadline.profiles.recorded_window import RecordedWindow, read_table
from leadline.profiles.traces import read_rows
from leadline.records.memory_by_owner import MemoryAtError
from leadline.records.profile_window import TIMERS, is_window_document, train_steps
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.run_files import subfolders

CALLS: Final = pa.schema(
    [
        ("worker", pa.string()),
        ("window", pa.string()),
        ("step", pa.int64()),
        ("mode", pa.string()),
        ("phase", pa.string()),
        ("operator", pa.string()),
        ("module", pa.string()),
        ("device", pa.string()),
        ("start_ns", pa.int64()),
        ("total_ns", pa.int64()),
        ("own_ns", pa.int64()),
        ("thread", pa.int64()),
        ("memory_bytes", pa.int64()),
    ]
)
"""One row per call. ``own_ns`` is the self time, without the operators that it called; ``memory_bytes`` the memory
allocated by the call itself minus the memory freed (null: not recorded). ``phase`` is ``forward``, ``backward``,
``optimizer`` or ``other``; ``module`` is ``""`` for calls outside any module's forward pass."""

WINDOWS: Final = pa.schema(
    [
        ("worker", pa.string()),
        ("id", pa.string()),
        ("kind", pa.string()),
        ("timer", pa.string()),
        ("part", pa.string()),
        ("first_step", pa.int64()),
        ("end_step", pa.int64()),
        ("steps", pa.int64()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("bytes", pa.int64()),
        ("notes", pa.list_(pa.string())),
    ]
)
_PYTHON: Final = ("cprofile", "pyinstrument")
_BY: Final = ("phase", "operator", "module", "device")


def read_windows(run: str) -> list[RecordedWindow]:
    """Return the completely written windows of a run directory, ordered by start."""
    windows, profiles = [], os.path.join(run, layout.PROFILES)
    for worker in subfolders(profiles):
        for window_name in subfolders(os.path.join(profiles, worker)):
            folder = os.path.join(profiles, worker, window_name)
            document = read_document(os.path.join(folder, layout.WINDOW))
            if is_window_document(document):
                windows.append(RecordedWindow(folder, worker, document))
    return sorted(windows, key=lambda window: window.document["start_ns"])


class ProfileQueries:
    """The methods of ``Run`` for operators, data loading, Python functions and Horovod."""

    path: str

    def profiles(self) -> pa.Table:
        """Return the completely written profile windows.

        Shape:
            One row per window: ``worker, id, kind, timer, part, first_step, end_step, steps, start_ns, end_ns, bytes,
            notes``, ordered by start. The first and the end step are train steps; ``steps`` counts those of all modes.
        """
        stored = ("id", "kind", "timer", "part", "start_ns", "end_ns", "bytes", "notes")
        rows = []
        for window in read_windows(self.path):
            document, (first, end) = window.document, train_steps(window.document)
            counts = {"first_step": first, "end_step": end, "steps": document["end_step"] - document["first_step"]}
            rows.append({"worker": window.worker, **{name: document.get(name) for name in stored}, **counts})
        return pa.Table.from_pylist(rows, WINDOWS)

    def operators(
        self,
        by: Sequence[str] = _BY,
        *,
        window: str | None = None,
        worker: str | None = None,
        step: int | tuple[int, int] | None = None,
        phase: str | None = None,
        module: str | None = None,
        device: str | None = None,
    ) -> pa.Table:
        """Return the operators of detailed windows, grouped and ordered by self time.

        Shape:
            One row per group: the columns of ``by``, ``calls, total_ns, own_ns, memory_bytes`` and the shares.
        Args:
            by: Columns to group by: ``phase``, ``operator``, ``module``, ``device`` …
            window, worker, phase, device: Only these; None for all.
            step: Only this step, or a half-open range ``(first, end)``.
            module: Only modules whose name contains a match (``re.search``).
        Raises:
            NotCapturedError: No detailed window was recorded.
            UnknownNameError: There is no such column or window.
        """
        for name in by:
            if name not in CALLS.names:
                raise UnknownNameError("column of operators", name, CALLS.names)
        table = self.operator_calls(window=window, worker=worker, step=step)
        for column, wanted in (("phase", phase), ("device", device)):
            if wanted is not None:
                table = table.filter(pc.equal(table[column], wanted))
        if module is not None:
            table = table.filter(pc.match_substring_regex(table["module"], module))
        sums = [("start_ns", "count"), ("total_ns", "sum"), ("own_ns", "sum"), ("memory_bytes", "sum")]
        groups = table.group_by(list(by)).aggregate(sums)
        groups = groups.select([*by, "start_ns_count", "total_ns_sum", "own_ns_sum", "memory_bytes_sum"])
        groups = groups.rename_columns([*by, "calls", "total_ns", "own_ns", "memory_bytes"])
        return _with_shares(groups.sort_by([("own_ns", "descending")]))

    def operator_calls(
        self, *, window: str | None = None, worker: str | None = None, step: int | tuple[int, int] | None = None
    ) -> pa.Table:
        """Return every operator call of detailed windows.

        Shape:
            One row per call, ordered by start: ``worker, window, step, mode, phase, operator, module, device,
            start_ns, total_ns, own_ns, thread, memory_bytes``.
        Raises:
            NotCapturedError: No detailed window was recorded.
        """
        steps = _step_range(step)
        chosen = self._select_windows(("detailed",), window, worker, step=steps, time_ns=None)
        table = pa.concat_tables([self._calls_of(selected) for selected in chosen])
        if steps is not None:
            table = _between(table, "step", steps)
        return table.sort_by("start_ns")

    def out_of_memory(self) -> list[MemoryAtError]:
        """Return a memory report for each out-of-memory error, oldest first.

        Returns:
            Documents with ``step, time_ns, worker, error, categories`` (bytes of parameters, gradients, optimizer
            state, buffers), ``other_bytes`` (activations, batches and other memory on accelerators; None if not
            counted), ``modules`` (the same by module, the largest first) and ``devices``.
        """
        documents = list[MemoryAtError]()
        profiles = os.path.join(self.path, layout.PROFILES)
        for worker in subfolders(profiles):
            folder = os.path.join(profiles, worker)
            paths = (os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("out-of-memory-"))
            documents += [
                cast(MemoryAtError, document) for document in map(read_document, paths) if isinstance(document, dict)
            ]
        return sorted(documents, key=lambda document: int(document["time_ns"]))

    def data_loading(self, *, window: str | None = None, worker: str | None = None) -> pa.Table:
        """Return the events of PyTorch data loaders in the profile windows that recorded them.

        Shape:
            One row per event, ordered by start: ``worker, window, event, step, worker_id, num_workers, start_ns,
            duration_ns, bytes, batch_size, ready, pid``. ``event`` is ``fetch`` (a batch was created by the loader
            worker ``worker_id``; null: by the training process), ``wait`` (the training requested a batch while
            ``ready`` batches were available) or ``make_iterator``. Unknown values are null.
        Raises:
            NotCapturedError: No such window was recorded.
        """
        chosen = self._select_windows(("dataloader",), window, worker, step=None, time_ns=None)
        table = pa.concat_tables([_loading_of(recorded) for recorded in chosen])
        for index, name in enumerate(table.column_names):
            if pa.types.is_int64(table.schema.types[index]):
                known = pc.if_else(pc.less(table[name], 0), pa.scalar(None, pa.int64()), table[name])
                table = table.set_column(index, name, known)
        return table.sort_by("start_ns")

    def horovod(self) -> pa.Table:
        """Return the Horovod timeline recorded so far, if ``HOROVOD_TIMELINE`` is set to a file.

        Shape:
            One row per completed activity: ``worker, tensor, activity, depth, start_ns, duration_ns, args``, ordered
            by start. ``activity`` is Horovod's name: ``NEGOTIATE_ALLREDUCE``, ``ALLREDUCE``, ``NCCL_ALLREDUCE`` …;
            ``depth`` is the number of enclosing activities of the tensor.
        Units:
            ns since the epoch, and ns; the resolution of Horovod's clock is one microsecond.
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
        """Return the Python functions in selected slices of the Python profiles.

        Args:
            kind: ``cprofile`` or ``pyinstrument``.
            timer: The timer of cProfile: ``total``, ``cpu`` or ``off_cpu``.
            part: The part of the run that the window covers.
            window, worker, mode, phase: Only these; None for all.
            step: Only this step, or a half-open range ``(first, end)``.
            time_ns: Only slices that overlap a time interval.
            between: Only steps of the second mode that follow a step of the first.
        Raises:
            NotCapturedError: No such window was recorded.
            UnknownNameError: There is no such profiler, timer or window.
        """
        if kind not in _PYTHON:
            raise UnknownNameError("Python profiler", kind, _PYTHON)
        if timer not in TIMERS:
            raise UnknownNameError("timer", timer, TIMERS)
        steps = _step_range(step)
        chosen = [
            recorded
            for recorded in self._select_windows((kind,), window, worker, step=steps, time_ns=time_ns)
            if (kind != "cprofile" or recorded.document.get("timer") == timer) and recorded.document.get("part") == part
        ]
        query = ProfileQuery(steps, time_ns, mode, phase, between)
        if kind == "cprofile":
            return FunctionTables(chosen, query)
        return CallTrees(chosen, query)

    @cached_property
    def _operator_calls(self) -> dict[str, pa.Table]:
        """The operator calls by the folder of their window."""
        return {}

    def _select_windows(
        self,
        kinds: Sequence[str],
        window: str | None,
        worker: str | None,
        *,
        step: tuple[int, int] | None,
        time_ns: tuple[int, int] | None,
    ) -> list[RecordedWindow]:
        known = [recorded for recorded in read_windows(self.path) if recorded.kind in kinds]
        if not known:
            ask = f"--python {kinds[0]}" if kinds[0] in _PYTHON else f"--{kinds[0]}"
            raise NotCapturedError(f"no {' or '.join(kinds)} window was recorded; record one: leadline profile {ask}")
        if window is not None and window not in {recorded.id for recorded in known}:
            raise UnknownNameError("profile window", window, {recorded.id for recorded in known})
        selected = [
            recorded
            for recorded in known
            if window in (None, recorded.id)
            and worker in (None, recorded.worker)
            and recorded.covers(step=step, time_ns=time_ns)
        ]
        if not selected:
            raise NotCapturedError(f"no {' or '.join(kinds)} window matches; run.profiles() lists the windows")
        return selected

    def _calls_of(self, window: RecordedWindow) -> pa.Table:
        if window.folder not in self._operator_calls:
            self._operator_calls[window.folder] = read_calls(window.folder, window.worker, window.id)
        return self._operator_calls[window.folder]


def _loading_of(window: RecordedWindow) -> pa.Table:
    """Return the events of a window; their steps are counted from its first train step."""
    table = read_table(window, layout.LOADING)
    steps = table["step"].to_numpy()
    (first, end), shift = train_steps(window.document), int(window.document["first_step"])
    placed = np.where(steps < 0, steps, np.clip(steps - shift + first, first, max(first, end - 1)))
    return table.set_column(table.column_names.index("step"), "step", pa.array(placed, pa.int64()))


def _with_shares(table: pa.Table) -> pa.Table:
    """Append each row's share of the total self time, and the cumulative share."""
    self_ns = table["own_ns"].combine_chunks().cast(pa.float64())
    total = pc.sum(self_ns).as_py() or 1.0
    shares = pc.divide(self_ns, total)
    return table.append_column("share", shares).append_column("cumulative_share", pc.cumulative_sum(shares))


def _step_range(step: int | tuple[int, int] | None) -> tuple[int, int] | None:
    return (step, step + 1) if isinstance(step, int) else step


def _between(table: pa.Table, column: str, bounds: tuple[int, int]) -> pa.Table:
    inside = pc.and_(pc.greater_equal(table[column], bounds[0]), pc.less(table[column], bounds[1]))
    return table.filter(inside)


def read_calls(folder: str, worker: str, window: str) -> pa.Table:
    """Read the calls of one window as ``CALLS``.

    Raises:
        DamagedRunError: The trace cannot be read.
    """
    rows = [{"worker": worker, "window": window, **row} for row in read_rows(folder)]
    return pa.Table.from_pylist(rows, schema=CALLS)
