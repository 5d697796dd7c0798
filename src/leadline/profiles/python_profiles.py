"""Python profiles of selected slices: cProfile tables and pyinstrument call trees."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import MissingExtraError, NotCapturedError, UnknownNameError
from leadline.profiles.recorded_window import RecordedWindow, read_table
from leadline.profiles.rows import SampledSlice, SliceRow
from leadline.records.json_object import JsonObject
from leadline.records.profile_window import train_step_of
from leadline.store import layout
from leadline.store.documents import read_document

Order = Literal["own", "cumulative", "calls", "primitive_calls"]
_ORDERS: Final = {
    "own": "own_ns",
    "cumulative": "cumulative_ns",
    "calls": "calls",
    "primitive_calls": "primitive_calls",
}
_FUNCTION: Final = ("function", "file", "line")
_TIMES: Final = ("calls", "primitive_calls", "own_ns", "cumulative_ns")


@dataclass(frozen=True, slots=True)
class ProfileQuery:
    """The selection of slices."""

    step: tuple[int, int] | None
    time_ns: tuple[int, int] | None
    mode: str | None
    phase: str | None
    between: tuple[str, str] | None

    def selector(self, slices: Sequence[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], bool]:
        """Return a predicate that selects slices."""
        transitions = self._transition_steps(slices)

        def is_selected(profile_slice: Mapping[str, Any]) -> bool:
            return (
                (self.step is None or self.step[0] <= profile_slice["step"] < self.step[1])
                and (
                    self.time_ns is None
                    or (profile_slice["start_ns"] < self.time_ns[1] and self.time_ns[0] < profile_slice["end_ns"])
                )
                and self.mode in (None, profile_slice["mode"])
                and self.phase in (None, profile_slice["phase"])
                and (transitions is None or profile_slice["global_step"] in transitions)
            )

        return is_selected

    def _transition_steps(self, slices: Sequence[Mapping[str, Any]]) -> frozenset[int] | None:
        """Return the global steps of the second mode that follow one of the first; None if all steps are selected."""
        if self.between is None:
            return None
        modes = dict(sorted({(profile_slice["global_step"], profile_slice["mode"]) for profile_slice in slices}))
        return frozenset(step for step, mode in modes.items() if (modes.get(step - 1), mode) == self.between)


class PythonProfile(ABC):
    """The Python functions in selected slices; see ``Run.python_profile``."""

    @abstractmethod
    def slices(self) -> pa.Table:
        """Return the selected slices: ``worker, window, step, mode, phase, start_ns, end_ns``."""

    def top(self, by: Order = "own", limit: int | None = 10) -> pa.Table:
        """Return the most expensive functions.

        Shape:
            One row per function: ``function, file, line, calls, primitive_calls, own_ns, cumulative_ns``, summed over
            the slices. pyinstrument does not count calls (null).
        Args:
            by: ``own``, ``cumulative``, ``calls`` or ``primitive_calls``.
            limit: The number of rows; None for all.
        """
        if by not in _ORDERS:
            raise UnknownNameError("order", by, _ORDERS)
        functions = self._functions().sort_by([(_ORDERS[by], "descending")])
        return functions if limit is None else functions.slice(0, limit)

    @abstractmethod
    def callers(self, function: str) -> pa.Table:
        """Return the callers of a function, given by its name or the end of it.

        Shape:
            One row per caller: ``caller_function, caller_file, caller_line`` and the times of the calls.
        """

    @abstractmethod
    def _functions(self) -> pa.Table:
        """Return every function, with the columns of ``top``."""


class FunctionTables(PythonProfile):
    """Profile recorded by cProfile."""

    def __init__(self, windows: Sequence[RecordedWindow], query: ProfileQuery) -> None:
        self._windows, self._query = windows, query

    def slices(self) -> pa.Table:
        keys = ["worker", "window", "step", "mode", "phase", "start_ns", "end_ns"]
        return self._table(layout.FUNCTIONS).group_by(keys).aggregate([]).select(keys).sort_by("start_ns")

    def by_slice(self) -> Iterator[tuple[SliceRow, pa.Table]]:
        """Yield each slice with its functions, ordered by self time."""
        table = self._table(layout.FUNCTIONS)
        for profile_slice in self.slices().to_pylist():
            functions = table.filter(pc.equal(table["start_ns"], profile_slice["start_ns"]))
            yield profile_slice, _summed(functions, list(_FUNCTION)).sort_by([("own_ns", "descending")])

    def callers(self, function: str) -> pa.Table:
        table = self._table(layout.CALLS)
        is_selected = pc.or_(pc.equal(table["function"], function), pc.ends_with(table["function"], f".{function}"))
        keys = [f"caller_{name}" for name in _FUNCTION]
        return _summed(table.filter(is_selected), keys).sort_by([("cumulative_ns", "descending")])

    def _functions(self) -> pa.Table:
        return _summed(self._table(layout.FUNCTIONS), list(_FUNCTION))

    def _table(self, name: str) -> pa.Table:
        tables = [_placed(window, read_table(window, name)) for window in self._windows]
        if not tables:
            raise NotCapturedError("no Python profile matches; run.profiles() lists the windows")
        table = pa.concat_tables(tables)
        keys = ["worker", "window", "step", "global_step", "mode", "phase", "start_ns", "end_ns"]
        slices = table.group_by(keys).aggregate([]).to_pylist()
        is_selected = self._query.selector(slices)
        rows = [profile_slice["start_ns"] for profile_slice in slices if is_selected(profile_slice)]
        return table.filter(pc.is_in(table["start_ns"], pa.array(rows, pa.int64())))


@dataclass(frozen=True, slots=True)
class Flame:
    """A function call reconstructed from consecutive pyinstrument samples."""

    function: str
    file: str
    line: int
    start_ns: int
    duration_ns: int


def _flames(records: Sequence[tuple[list[str], float]], start_ns: int) -> list[Flame]:
    """Return calls reconstructed from samples, ordered by start, callers before callees."""
    stack_frames: list[tuple[str, int]] = []
    flames: list[Flame] = []
    now_ns = float(start_ns)

    def leave(depth: int) -> None:
        while len(stack_frames) > depth:
            name, since_ns = stack_frames.pop()
            function, file, line = (*name.split("\0"), "", "")[:3]
            flames.append(Flame(function, file, int(line or 0), since_ns, round(now_ns) - since_ns))

    for stack, seconds in records:
        names = [frame.partition("\x01")[0] for frame in stack if "\0<thread>\0" not in frame]
        pairs = enumerate(zip(names, stack_frames, strict=False))
        changed = next((depth for depth, (name, (open_name, _)) in pairs if name != open_name), None)
        leave(min(len(names), len(stack_frames)) if changed is None else changed)
        stack_frames += [(name, round(now_ns)) for name in names[len(stack_frames) :]]
        now_ns += seconds * 1e9
    leave(0)
    flames.reverse()  # callers first if start and duration are equal
    return sorted(flames, key=lambda flame: (flame.start_ns, -flame.duration_ns))


class CallTrees(PythonProfile):
    """Profile recorded by pyinstrument."""

    def __init__(self, windows: Sequence[RecordedWindow], query: ProfileQuery) -> None:
        documents = [document for window in windows for document in _placed_sessions(window)]
        is_selected = query.selector(documents)
        self._documents = [document for document in documents if is_selected(document)]

    def slices(self) -> pa.Table:
        keys = ("worker", "window", "step", "mode", "phase", "start_ns", "end_ns")
        rows = [{key: value for key, value in part.items() if key in keys} for part in self._documents]
        return pa.Table.from_pylist(rows)

    def flames(self) -> Iterator[tuple[SliceRow, list[Flame]]]:
        """Yield each slice with its calls in the order of time; a sample represents the time since the previous one."""
        for document in self._documents:
            yield document, _flames(document["session"]["frame_records"], document["start_ns"])

    @cached_property
    def session(self) -> Any:
        """All slices combined to one ``pyinstrument.session.Session``.

        Raises:
            MissingExtraError: pyinstrument is not installed here.
        """
        try:
            from pyinstrument.session import Session
        except ImportError as error:
            raise MissingExtraError(
                "call trees need pyinstrument; install it with: pip install 'leadline[python-profiles]'"
            ) from error
        if not self._documents:
            raise NotCapturedError("no Python profile matches; run.profiles() lists the windows")
        first, *others = (Session.from_json(document["session"]) for document in self._documents)
        for other in others:
            first = Session.combine(first, other)
        return first

    def tree(self) -> str:
        """Return the call tree as text."""
        from pyinstrument.renderers import ConsoleRenderer

        return str(ConsoleRenderer(unicode=True, color=False).render(self.session))

    def html(self) -> str:
        """Return the call tree as a self-contained HTML page."""
        from pyinstrument.renderers import HTMLRenderer

        return str(HTMLRenderer().render(self.session))

    def callers(self, function: str) -> pa.Table:
        rows = [
            {
                "caller_function": caller.function,
                "caller_file": caller.file_path or "",
                "caller_line": caller.line_no or 0,
                "cumulative_ns": round(frame.time * 1e9),
            }
            for frame, caller in _frames(self.session.root_frame(), None)
            if caller is not None and frame.function == function
        ]
        keys = [f"caller_{name}" for name in _FUNCTION]
        table = pa.Table.from_pylist(
            rows,
            pa.schema(
                [(keys[0], pa.string()), (keys[1], pa.string()), (keys[2], pa.int64()), ("cumulative_ns", pa.int64())]
            ),
        )
        summed = table.group_by(keys).aggregate([("cumulative_ns", "sum")])
        return summed.rename_columns([*keys, "cumulative_ns"]).sort_by([("cumulative_ns", "descending")])

    def _functions(self) -> pa.Table:
        self_seconds: dict[tuple[str, str, int], float] = {}
        cumulative: dict[tuple[str, str, int], float] = {}
        for frame, _ in _frames(self.session.root_frame(), None):
            location = (frame.function, frame.file_path or "", frame.line_no or 0)
            self_seconds[location] = self_seconds.get(location, 0.0) + frame.total_self_time
            if not _is_recursive(frame):
                cumulative[location] = cumulative.get(location, 0.0) + frame.time
        rows = [
            {
                "function": name,
                "file": file,
                "line": line,
                "calls": None,
                "primitive_calls": None,
                "own_ns": round(self_seconds[name, file, line] * 1e9),
                "cumulative_ns": round(cumulative_seconds * 1e9),
            }
            for (name, file, line), cumulative_seconds in cumulative.items()
        ]
        kinds = [pa.string(), pa.string(), pa.int64(), *[pa.int64()] * len(_TIMES)]
        return pa.Table.from_pylist(rows, pa.schema(zip((*_FUNCTION, *_TIMES), kinds, strict=True)))


def _frames(frame: Any, caller: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every frame with its caller; synthetic frames are skipped."""
    if frame is None or frame.is_synthetic:
        return
    yield frame, caller
    for child in frame.children:
        yield from _frames(child, frame)


def _is_recursive(frame: Any) -> bool:
    """Return whether the function is already on the stack: its time is counted there."""
    ancestor = frame.parent
    while ancestor is not None:
        if (ancestor.function, ancestor.file_path) == (frame.function, frame.file_path):
            return True
        ancestor = ancestor.parent
    return False


def _sessions(window: RecordedWindow) -> Iterator[JsonObject]:
    for name in window.document["files"]:
        document = read_document(os.path.join(window.folder, layout.file_name(name)))
        if isinstance(document, dict):
            yield {**document, "worker": window.worker, "window": window.id}


def _placed_sessions(window: RecordedWindow) -> list[SampledSlice]:
    """Return the sessions of a window with their train steps."""
    sessions = list(_sessions(window))
    positions = train_step_of(window.document, [(session["step"], session["mode"]) for session in sessions])
    return [
        cast(SampledSlice, session | {"step": positions[session["step"]], "global_step": session["step"]})
        for session in sessions
    ]


def _placed(window: RecordedWindow, table: pa.Table) -> pa.Table:
    """Return the functions of a window with their train steps."""
    steps = table["step"].to_pylist()
    positions = train_step_of(window.document, zip(steps, table["mode"].to_pylist(), strict=True))
    placed = pa.array([positions[step] for step in steps], pa.int64())
    table = table.append_column("global_step", table["step"])
    return table.set_column(table.column_names.index("step"), "step", placed)


def _summed(table: pa.Table, keys: list[str]) -> pa.Table:
    sums = table.group_by(keys).aggregate([(name, "sum") for name in _TIMES])
    return sums.select([*keys, *(f"{name}_sum" for name in _TIMES)]).rename_columns([*keys, *_TIMES])
