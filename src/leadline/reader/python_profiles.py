"""What Python functions did in some slices of profiling windows: cProfile's tables, pyinstrument's call trees."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import MissingExtraError, NotCapturedError, UnknownNameError
from leadline.reader.recorded_window import RecordedWindow, read_table
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
    """Which slices are meant."""

    step: tuple[int, int] | None
    time_ns: tuple[int, int] | None
    mode: str | None
    phase: str | None
    between: tuple[str, str] | None

    def selector(self, slices: Sequence[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], bool]:
        """Tells whether a slice is meant, once all are known."""
        changes = self._changes(slices)

        def is_meant(each: Mapping[str, Any]) -> bool:
            return (
                (self.step is None or self.step[0] <= each["step"] < self.step[1])
                and (self.time_ns is None or (each["start_ns"] < self.time_ns[1] and self.time_ns[0] < each["end_ns"]))
                and self.mode in (None, each["mode"])
                and self.phase in (None, each["phase"])
                and (changes is None or each["step"] in changes)
            )

        return is_meant

    def _changes(self, slices: Sequence[Mapping[str, Any]]) -> frozenset[int] | None:
        """The steps of the second mode that follow one of the first; None: it does not matter."""
        if self.between is None:
            return None
        modes = dict(sorted({(each["step"], each["mode"]) for each in slices}))
        return frozenset(step for step, mode in modes.items() if (modes.get(step - 1), mode) == self.between)


class PythonProfile(ABC):
    """Python functions in some slices: see ``Run.python_profile``."""

    @abstractmethod
    def slices(self) -> pa.Table:
        """What was recorded: ``worker, window, step, mode, phase, start_ns, end_ns``."""

    def top(self, by: Order = "own", most: int | None = 10) -> pa.Table:
        """The functions that take most.

        Shape:
            A row a function: ``function, file, line, calls, primitive_calls, own_ns, cumulative_ns``, summed over the
            slices. Of pyinstrument calls are not counted (null).
        Args:
            by: ``own``, ``cumulative``, ``calls`` or ``primitive_calls``.
            most: So many rows; None: all.
        """
        if by not in _ORDERS:
            raise UnknownNameError("order", by, _ORDERS)
        found = self._functions().sort_by([(_ORDERS[by], "descending")])
        return found if most is None else found.slice(0, most)

    @abstractmethod
    def callers(self, function: str) -> pa.Table:
        """Who called a function, by its name or the end of it.

        Shape:
            A row a caller: ``caller_function, caller_file, caller_line`` and the times of those calls.
        """

    @abstractmethod
    def _functions(self) -> pa.Table:
        """Every function, as ``top`` tells it."""


class FunctionTables(PythonProfile):
    """cProfile's tables."""

    def __init__(self, windows: Sequence[RecordedWindow], wanted: ProfileQuery) -> None:
        self._windows, self._wanted = windows, wanted

    def slices(self) -> pa.Table:
        keys = ["worker", "window", "step", "mode", "phase", "start_ns", "end_ns"]
        return self._table(layout.FUNCTIONS).group_by(keys).aggregate([]).select(keys).sort_by("start_ns")

    def by_slice(self) -> Iterator[tuple[dict[str, Any], pa.Table]]:
        """Each slice with the functions of it, the dearest first."""
        table = self._table(layout.FUNCTIONS)
        for each in self.slices().to_pylist():
            found = table.filter(pc.equal(table["start_ns"], each["start_ns"]))
            yield each, _summed(found, list(_FUNCTION)).sort_by([("own_ns", "descending")])

    def callers(self, function: str) -> pa.Table:
        table = self._table(layout.CALLS)
        is_meant = pc.or_(pc.equal(table["function"], function), pc.ends_with(table["function"], f".{function}"))
        keys = [f"caller_{each}" for each in _FUNCTION]
        return _summed(table.filter(is_meant), keys).sort_by([("cumulative_ns", "descending")])

    def _functions(self) -> pa.Table:
        return _summed(self._table(layout.FUNCTIONS), list(_FUNCTION))

    def _table(self, name: str) -> pa.Table:
        tables = [read_table(each, name) for each in self._windows]
        if not tables:
            raise NotCapturedError("no Python profile was recorded of that: see run.profiles()")
        table = pa.concat_tables(tables)
        keys = ["worker", "window", "step", "mode", "phase", "start_ns", "end_ns"]
        slices = table.group_by(keys).aggregate([]).to_pylist()
        meant = self._wanted.selector(slices)
        rows = [each["start_ns"] for each in slices if meant(each)]
        return table.filter(pc.is_in(table["start_ns"], pa.array(rows, pa.int64())))


@dataclass(frozen=True, slots=True)
class Flame:
    """A function that pyinstrument saw under way from one sample to another."""

    function: str
    file: str
    line: int
    start_ns: int
    duration_ns: int


def _flames(records: Sequence[tuple[list[str], float]], start_ns: int) -> list[Flame]:
    """Calls from samples, by start, callers before what they call."""
    begun: list[tuple[str, int]] = []
    found: list[Flame] = []
    now_ns = float(start_ns)

    def leave(depth: int) -> None:
        while len(begun) > depth:
            name, since_ns = begun.pop()
            function, file, line = (*name.split("\0"), "", "")[:3]
            found.append(Flame(function, file, int(line or 0), since_ns, round(now_ns) - since_ns))

    for stack, seconds in records:
        names = [each.partition("\x01")[0] for each in stack if "\0<thread>\0" not in each]
        same = next((at for at, (one, (other, _)) in enumerate(zip(names, begun, strict=False)) if one != other), None)
        leave(min(len(names), len(begun)) if same is None else same)
        begun += [(each, round(now_ns)) for each in names[len(begun) :]]
        now_ns += seconds * 1e9
    leave(0)
    found.reverse()  # callers first, where both begin and last alike
    return sorted(found, key=lambda each: (each.start_ns, -each.duration_ns))


class CallTrees(PythonProfile):
    """pyinstrument's sessions."""

    def __init__(self, windows: Sequence[RecordedWindow], wanted: ProfileQuery) -> None:
        documents = [each for window in windows for each in _sessions(window)]
        meant = wanted.selector(documents)
        self._documents = [each for each in documents if meant(each)]

    def slices(self) -> pa.Table:
        keys = ("worker", "window", "step", "mode", "phase", "start_ns", "end_ns")
        return pa.Table.from_pylist([{key: each[key] for key in keys} for each in self._documents])

    def flames(self) -> Iterator[tuple[dict[str, Any], list[Flame]]]:
        """Each slice with the calls of it in the order of time: what a sample saw lasted since the one before."""
        for each in self._documents:
            yield each, _flames(each["session"]["frame_records"], each["start_ns"])

    @cached_property
    def session(self) -> Any:
        """All slices as one ``pyinstrument.session.Session``.

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
            raise NotCapturedError("no Python profile was recorded of that: see run.profiles()")
        first, *others = (Session.from_json(each["session"]) for each in self._documents)
        for each in others:
            first = Session.combine(first, each)
        return first

    def tree(self) -> str:
        """The call tree, as text."""
        from pyinstrument.renderers import ConsoleRenderer

        return str(ConsoleRenderer(unicode=True, color=False).render(self.session))

    def html(self) -> str:
        """The call tree, as a page that opens offline."""
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
        keys = [f"caller_{each}" for each in _FUNCTION]
        table = pa.Table.from_pylist(
            rows,
            pa.schema(
                [(keys[0], pa.string()), (keys[1], pa.string()), (keys[2], pa.int64()), ("cumulative_ns", pa.int64())]
            ),
        )
        summed = table.group_by(keys).aggregate([("cumulative_ns", "sum")])
        return summed.rename_columns([*keys, "cumulative_ns"]).sort_by([("cumulative_ns", "descending")])

    def _functions(self) -> pa.Table:
        own: dict[tuple[str, str, int], float] = {}
        cumulative: dict[tuple[str, str, int], float] = {}
        for frame, _ in _frames(self.session.root_frame(), None):
            place = (frame.function, frame.file_path or "", frame.line_no or 0)
            own[place] = own.get(place, 0.0) + frame.total_self_time
            if not _is_within_itself(frame):
                cumulative[place] = cumulative.get(place, 0.0) + frame.time
        rows = [
            {
                "function": name,
                "file": file,
                "line": line,
                "calls": None,
                "primitive_calls": None,
                "own_ns": round(own[name, file, line] * 1e9),
                "cumulative_ns": round(each * 1e9),
            }
            for (name, file, line), each in cumulative.items()
        ]
        kinds = [pa.string(), pa.string(), pa.int64(), *[pa.int64()] * len(_TIMES)]
        return pa.Table.from_pylist(rows, pa.schema(zip((*_FUNCTION, *_TIMES), kinds, strict=True)))


def _frames(frame: Any, caller: Any) -> Iterator[tuple[Any, Any]]:
    """Every frame with the one that called it; what stands for a function's own time is none."""
    if frame is None or frame.is_synthetic:
        return
    yield frame, caller
    for child in frame.children:
        yield from _frames(child, frame)


def _is_within_itself(frame: Any) -> bool:
    """Whether the same function is further up: its time is counted there."""
    above = frame.parent
    while above is not None:
        if (above.function, above.file_path) == (frame.function, frame.file_path):
            return True
        above = above.parent
    return False


def _sessions(window: RecordedWindow) -> Iterator[dict[str, Any]]:
    for name in window.document["files"]:
        found = read_document(os.path.join(window.folder, name))
        if isinstance(found, dict):
            yield {**found, "worker": window.worker, "window": window.id}


def _summed(table: pa.Table, keys: list[str]) -> pa.Table:
    found = table.group_by(keys).aggregate([(each, "sum") for each in _TIMES])
    return found.select([*keys, *(f"{each}_sum" for each in _TIMES)]).rename_columns([*keys, *_TIMES])
