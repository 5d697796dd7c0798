"""Recorded profile windows of a run: queries for operators, Python functions and data loading."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import NotCapturedError, UnknownNameError
from leadline.reader import operators
from leadline.reader.python_profiles import CallTrees, FunctionTables, ProfileQuery, PythonProfile
from leadline.reader.recorded_window import RecordedWindow, read_table
from leadline.records.profile_window import TIMERS
from leadline.store import layout
from leadline.store.documents import read_document

_PYTHON: Final = ("cprofile", "pyinstrument")
BY: Final = ("phase", "operator", "module", "device")


def window_table(windows: Sequence[RecordedWindow]) -> pa.Table:
    """Return windows as a table; see ``Run.profiles``."""
    columns = ("id", "kind", "timer", "part", "first_step", "end_step", "start_ns", "end_ns", "bytes", "notes")
    kinds = [*[pa.string()] * 4, *[pa.int64()] * 5, pa.list_(pa.string())]
    rows = [{"worker": window.worker, **{name: window.document[name] for name in columns}} for window in windows]
    return pa.Table.from_pylist(rows, pa.schema([("worker", pa.string()), *zip(columns, kinds, strict=True)]))


class RecordedProfiles:
    """The profile windows of a run.

    Args:
        run: The run directory.
    """

    def __init__(self, run: str) -> None:
        self._folder = os.path.join(run, layout.PROFILES)
        self._calls: dict[str, pa.Table] = {}

    def windows(self) -> list[RecordedWindow]:
        """Return the completely written windows, ordered by start."""
        windows = []
        for worker in _names(self._folder):
            for window_name in _names(os.path.join(self._folder, worker)):
                folder = os.path.join(self._folder, worker, window_name)
                document = read_document(os.path.join(folder, layout.WINDOW))
                if isinstance(document, dict):
                    windows.append(RecordedWindow(folder, worker, document))
        return sorted(windows, key=lambda window: int(window.document["start_ns"]))

    def operator_calls(
        self, *, window: str | None = None, worker: str | None = None, step: int | tuple[int, int] | None = None
    ) -> pa.Table:
        """Return every operator call as ``reader.operators.CALLS``, ordered by start.

        Raises:
            NotCapturedError: No detailed window was recorded.
        """
        steps = _step_range(step)
        chosen = self._select(("detailed",), window, worker, step=steps, time_ns=None)
        table = pa.concat_tables([self._calls_of(selected) for selected in chosen])
        if steps is not None:
            table = _between(table, "step", steps)
        return table.sort_by("start_ns")

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
        """Return operators grouped by the columns ``by``, ordered by self time; see ``Run.operators``."""
        for name in by:
            if name not in operators.CALLS.names:
                raise UnknownNameError("column of operators", name, operators.CALLS.names)
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

    def out_of_memory(self) -> list[dict[str, Any]]:
        """Return the out-of-memory reports; see ``Run.out_of_memory``."""
        documents = []
        for worker in _names(self._folder):
            folder = os.path.join(self._folder, worker)
            paths = (os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("out-of-memory-"))
            documents += [document for document in map(read_document, paths) if isinstance(document, dict)]
        return sorted(documents, key=lambda document: int(document["time_ns"]))

    def data_loading(self, *, window: str | None = None, worker: str | None = None) -> pa.Table:
        """Return the events of data loaders; see ``Run.data_loading``."""
        chosen = self._select(("dataloader",), window, worker, step=None, time_ns=None)
        table = pa.concat_tables([read_table(recorded, layout.LOADING) for recorded in chosen])
        for index, name in enumerate(table.column_names):
            if pa.types.is_int64(table.schema.types[index]):
                known = pc.if_else(pc.less(table[name], 0), pa.scalar(None, pa.int64()), table[name])
                table = table.set_column(index, name, known)
        return table.sort_by("start_ns")

    def python(
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
        """Return slices of Python profiles; see ``Run.python_profile``."""
        if kind not in _PYTHON:
            raise UnknownNameError("Python profiler", kind, _PYTHON)
        if timer not in TIMERS:
            raise UnknownNameError("timer", timer, TIMERS)
        steps = _step_range(step)
        chosen = [
            recorded
            for recorded in self._select((kind,), window, worker, step=steps, time_ns=time_ns)
            if (kind != "cprofile" or recorded.document["timer"] == timer) and recorded.document["part"] == part
        ]
        query = ProfileQuery(steps, time_ns, mode, phase, between)
        if kind == "cprofile":
            return FunctionTables(chosen, query)
        return CallTrees(chosen, query)

    def _select(
        self,
        kinds: Sequence[str],
        window: str | None,
        worker: str | None,
        *,
        step: tuple[int, int] | None,
        time_ns: tuple[int, int] | None,
    ) -> list[RecordedWindow]:
        known = [recorded for recorded in self.windows() if recorded.kind in kinds]
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
        if window.folder not in self._calls:
            self._calls[window.folder] = operators.read_calls(window.folder, window.worker, window.id)
        return self._calls[window.folder]


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


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))
    except FileNotFoundError:
        return []
