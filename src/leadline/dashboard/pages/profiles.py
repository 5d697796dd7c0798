"""Profiles page of a run: recorded profile windows and their contents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from leadline.analysis.call_tree import is_own
from leadline.dashboard.page import open_run, render
from leadline.dashboard.query import parse_integer
from leadline.dashboard.requested_profiles import requested_profiles
from leadline.errors import LeadlineError
from leadline.profiles.horovod import has_horovod
from leadline.profiles.python_profiles import CallTrees, PythonProfile
from leadline.profiles.rows import WindowRow
from leadline.reader.run import Run
from leadline.reader.table_rows import TableRow
from leadline.records.formatting import counted
from leadline.records.profile_window import TIMERS

VIEWS: Final = {
    "windows": "Windows",
    "operators": "Operators",
    "python": "Python",
    "loading": "Data loading",
    "memory": "Out of memory",
    "horovod": "Horovod",
    "difference": "Difference",
}
_DEFAULT_GROUPS: Final = ("phase", "module", "operator")
_PARAMETERS: Final = ("window", "worker", "step", "mode", "phase", "between", "start_ns", "end_ns", "words", "function")
_COMPARED_KINDS: Final = ("detailed", "cprofile", "pyinstrument")
_PROFILERS: Final = ("pyinstrument", "cprofile:total", "cprofile:cpu", "cprofile:off_cpu")
TOP: Final = 200
"""Maximum number of table rows."""
GROUPS: Final = ("phase", "module", "operator", "device", "mode", "step")
KINDS: Final = {
    "detailed": "operators",
    "cprofile": "Python functions, every call",
    "pyinstrument": "Python call stacks, sampled",
    "dataloader": "data loading",
}
ORDERS: Final = {"own": "own time", "cumulative": "cumulative time", "calls": "calls"}


def profiles(request: Request) -> Response:
    """Serve ``/runs/{run}/profiles``; ``?view=`` selects the part."""
    opened = open_run(request)
    parameters = request.query_params
    part = parameters.get("view") if parameters.get("view") in VIEWS else "windows"
    with opened.lock:
        shown = {key: label for key, label in VIEWS.items() if key == part or _is_shown(opened.run, key)}
        context: dict[str, object] = {"view": part, "views": shown, "missing": "", "top": TOP, "kinds": KINDS}
        context["window_labels"] = window_labels(recorded_windows(opened.run))
        try:
            context |= _PARTS[str(part)](opened.run, parameters)
        except LeadlineError as error:
            context["missing"] = str(error)
    return render(request, f"profiles_{part}.html", context, page="profiles")


def _is_shown(run: Run, view: str) -> bool:
    """Return whether a view has a tab: those of rare events, and what compares two windows, only where they are."""
    if view == "memory":
        return bool(run.out_of_memory())
    if view == "difference":
        kinds = [window["kind"] for window in recorded_windows(run, *_COMPARED_KINDS)]
        return len(kinds) > len(set(kinds))
    return has_horovod(run.path) if view == "horovod" else True


def _windows(run: Run, parameters: QueryParams) -> dict[str, object]:
    return {"windows": recorded_windows(run), "requests": requested_profiles(run)}


def _operators(run: Run, parameters: QueryParams) -> dict[str, object]:
    windows = recorded_windows(run, "detailed")
    window, worker = (
        parameters.get("window") or (windows[0]["id"] if windows else None),
        parameters.get("worker") or None,
    )
    by = [column for column in parameters.getlist("by") if column in GROUPS] or list(_DEFAULT_GROUPS)
    calls = run.operator_calls(window=window, worker=worker)
    choices = choices_of(calls, "phase", "device", "step", "worker")
    filters = {name: parameters.get(name) or "" for name in ("phase", "device", "module", "step")}
    table = run.operators(
        by,
        window=window,
        worker=worker,
        phase=filters["phase"] or None,
        module=re.escape(filters["module"]) if filters["module"] else None,
        device=filters["device"] or None,
        step=parse_integer(filters["step"]),
    )
    operators = limited(table)
    has_memory = any(row["memory_bytes"] is not None for row in operators.rows)
    return {
        "windows": windows,
        "window": window,
        "worker": worker or "",
        "by": by,
        "groups": GROUPS,
        "choices": choices,
        "filters": filters,
        "table": operators,
        "has_memory": has_memory,
    }


def _python(run: Run, parameters: QueryParams) -> dict[str, object]:
    windows = recorded_windows(run, "cprofile", "pyinstrument")
    available = {_profiler_of(window) for window in windows}
    profiler = parameters.get("profiler") or ""
    if profiler not in _PROFILERS:
        profiler = next((profiler for profiler in _PROFILERS if profiler in available), "pyinstrument")
    windows_of_profiler = [window for window in windows if _profiler_of(window) == profiler]
    parts = list(dict.fromkeys(window["part"] for window in windows_of_profiler))
    filters = {name: parameters.get(name) or "" for name in _PARAMETERS}
    part = parameters.get("part") if parameters.get("part") in parts else (parts[0] if parts else "loop")
    profile = _profile(run, profiler, str(part), filters)
    all_slices = _profile(run, profiler, str(part), {"window": filters["window"], "worker": filters["worker"]}).slices()
    choices = choices_of(all_slices, "step", "mode", "phase", "worker")
    order = parameters.get("order") if parameters.get("order") in ORDERS else "own"
    return {
        "profilers": [profiler for profiler in _PROFILERS if profiler in available],
        "profiler": profiler,
        "windows": windows_of_profiler,
        "parts": parts,
        "part": part,
        "filters": filters,
        "interval": _interval(filters),
        "order": order,
        "orders": ORDERS,
        "choices": choices,
        "changes": [f"{before}:{after}" for before in choices["mode"] for after in choices["mode"] if before != after],
        "table": function_rows(profile, str(order), filters["words"]),
        "short_file": short_file,
        "callers": limited(profile.callers(filters["function"])) if filters["function"] else None,
        "is_tree": isinstance(profile, CallTrees),
    }


def _profiler_of(window: WindowView) -> str:
    return f"cprofile:{window['timer']}" if window["kind"] == "cprofile" else str(window["kind"])


def _profile(run: Run, profiler: str, part: str, filters: dict[str, str]) -> PythonProfile:
    kind, _, timer = profiler.partition(":")
    return run.python_profile(
        kind=kind,
        timer=timer if timer in TIMERS else "total",
        part=part,
        window=filters.get("window") or None,
        worker=filters.get("worker") or None,
        step=parse_integer(filters.get("step") or ""),
        mode=filters.get("mode") or None,
        phase=filters.get("phase") or None,
        between=_mode_change(filters.get("between") or ""),
        time_ns=_interval(filters),
    )


def _mode_change(text: str) -> tuple[str, str] | None:
    """Parse ``eval:train``: the steps of the second mode that follow one of the first."""
    before, _, after = text.partition(":")
    return (before, after) if before and after else None


def _interval(filters: dict[str, str]) -> tuple[int, int] | None:
    start, end = (parse_integer(filters.get(key) or "") for key in ("start_ns", "end_ns"))
    return (start, end) if start is not None and end is not None else None


def _loading(run: Run, parameters: QueryParams) -> dict[str, object]:
    windows = recorded_windows(run, "dataloader")
    window = parameters.get("window") or None
    sums, longest = loading_rows(run, window)
    return {"windows": windows, "window": window or "", "sums": sums, "longest": longest}


def _memory(run: Run, parameters: QueryParams) -> dict[str, object]:
    return {"snapshots": run.out_of_memory()[-20:]}


def _horovod(run: Run, parameters: QueryParams) -> dict[str, object]:
    return {"table": horovod_rows(run)}


def _difference(run: Run, parameters: QueryParams) -> dict[str, object]:
    """Compare two windows of one kind."""
    windows = recorded_windows(run, *_COMPARED_KINDS)
    ids = [window["id"] for window in windows]
    after = parameters.get("after") if parameters.get("after") in ids else (ids[0] if ids else "")
    kind = next((window["kind"] for window in windows if window["id"] == after), "")
    others = [window["id"] for window in windows if window["kind"] == kind and window["id"] != after]
    before = parameters.get("before") if parameters.get("before") in others else (others[-1] if others else "")
    context: dict[str, object] = {
        "windows": windows,
        "before": before,
        "after": after,
        "kind": kind,
        "table": None,
        "keys": (),
    }
    if not before:
        return context
    keys = ("phase", "module", "operator") if kind == "detailed" else ("function", "file", "line")
    rows_before, rows_after = (_rows_of(run, kind, window, keys, windows) for window in (str(before), str(after)))
    steps = (steps_in(run, str(before)), steps_in(run, str(after)))
    modes = [_modes_of(run, str(window), windows) for window in (before, after)]
    table = difference(rows_before, rows_after, keys, steps=steps)
    return {**context, "keys": keys, "table": table, "short_file": short_file, "modes": modes}


def _rows_of(run: Run, kind: str, window: str, keys: tuple[str, ...], windows: Sequence[WindowView]) -> list[TableRow]:
    table = (
        run.operators(keys, window=window) if kind == "detailed" else _functions(run, window, windows).top("own", None)
    )
    return [row for row in table.to_pylist() if not is_own(row.get("file") or "")]


def _modes_of(run: Run, window: str, windows: Sequence[WindowView]) -> list[str]:
    """Return the modes of the steps of a window."""
    is_detailed = any(item["id"] == window and item["kind"] == "detailed" for item in windows)
    table = run.operator_calls(window=window) if is_detailed else _functions(run, window, windows).slices()
    return [str(mode) for mode in choices_of(table, "mode")["mode"]]


def _functions(run: Run, window: str, windows: Sequence[WindowView]) -> PythonProfile:
    row = next(item for item in windows if item["id"] == window)
    return run.python_profile(kind=row["kind"], timer=row["timer"], part=row["part"], window=window)


_PARTS: Final[dict[str, Callable[[Run, QueryParams], dict[str, object]]]] = {
    "windows": _windows,
    "operators": _operators,
    "python": _python,
    "loading": _loading,
    "memory": _memory,
    "horovod": _horovod,
    "difference": _difference,
}


class WindowView(WindowRow):
    """A profile window with its length and its steps, as it is listed."""

    length_ns: int
    place: str


def recorded_windows(run: Run, *kinds: str) -> list[WindowView]:
    """Return the complete profile windows, the latest first.

    Args:
        kinds: Only these kinds; none: all.
    """
    rows = [
        {**row, "length_ns": row["end_ns"] - row["start_ns"], "place": window_place(row)}
        for row in run.profiles().to_pylist()
    ]
    return [row for row in reversed(rows) if not kinds or row["kind"] in kinds]


def window_place(window: WindowRow) -> str:
    """Return the steps of a window: ``40 to 41``; ``2 eval steps after 23``, if it has no train step."""
    if window["part"] != "loop":
        return f"{window['part']} of process"
    first, end = window["first_step"], window["end_step"]
    trained = f"{first:,} to {end - 1:,}" if end > first + 1 else f"{first:,}"
    others = counted(window["steps"] - (end - first), "eval step") if window["steps"] > end - first else ""
    if end == first:
        return f"{others} after {max(first - 1, 0):,}" if others else trained
    return f"{trained}, {others}" if others else trained


def window_labels(windows: Sequence[WindowRow]) -> dict[str, str]:
    """Return how each window is called in a list of choices: ``steps 40 to 41 (operators)``; with its ID if need be."""
    labels: dict[str, str] = {}
    for window in windows:
        steps, place = window["end_step"] - window["first_step"], window_place(window)
        noun = "" if window["part"] != "loop" or not steps else "steps " if steps > 1 else "step "
        label = f"{noun}{place} ({KINDS.get(window['kind'], window['kind'])})"
        is_taken = any(known == label for other, known in labels.items() if other != window["id"])
        labels[window["id"]] = f"{label}, {window['id']}" if is_taken else label
    return labels


@dataclass(frozen=True, slots=True)
class ProfileView:
    """Rows of a table, and their total number."""

    rows: Sequence[TableRow]
    count: int


def limited(table: pa.Table) -> ProfileView:
    """Return the first rows of a table."""
    return ProfileView(table.slice(0, TOP).to_pylist(), table.num_rows)


def choices_of(calls: pa.Table, *columns: str) -> dict[str, list[Any]]:
    """Return the sorted distinct values of each column."""
    return {
        column: sorted(pc.unique(calls[column]).drop_null().to_pylist()) if column in calls.column_names else []
        for column in columns
    }


def difference(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    *,
    steps: tuple[int, int],
) -> ProfileView:
    """Return the change of own time per step between two windows, the largest change first.

    Args:
        keys: Columns that identify a row.
        steps: Number of steps of each window.
    """
    sums_by_key: dict[tuple[Any, ...], list[float]] = {}
    for index, rows in enumerate((before, after)):
        for row in rows:
            sums = sums_by_key.setdefault(tuple(row[key] for key in keys), [0.0, 0.0])
            sums[index] += row["own_ns"] / max(1, steps[index])
    changes = [
        {
            **dict(zip(keys, names, strict=True)),
            "before_ns": before_ns,
            "after_ns": after_ns,
            "change_ns": after_ns - before_ns,
            "ratio": after_ns / before_ns if before_ns else None,
        }
        for names, (before_ns, after_ns) in sums_by_key.items()
    ]
    changes.sort(key=lambda row: -abs(row["change_ns"]))
    return ProfileView(changes[:TOP], len(changes))


def function_rows(profile: PythonProfile, order: str, filter_text: str) -> ProfileView:
    """Return the functions of the training, without Leadline's own, the longest first.

    Args:
        order: A key of ``ORDERS``.
        filter_text: Only functions whose name or file contains all words of this text.
    """
    table = profile.top(order if order in ORDERS else "own", None)  # type: ignore[arg-type]
    words = filter_text.lower().split()
    is_shown = [
        not is_own(row["file"]) and all(word in f"{row['function']} {row['file']}".lower() for word in words)
        for row in table.select(["function", "file"]).to_pylist()
    ]
    return limited(table.filter(pa.array(is_shown, pa.bool_())))


def short_file(path: str) -> str:
    """Return the end of a path that identifies the package and file."""
    parts = path.replace("\\", "/").split("/")
    if "site-packages" in parts:
        return "/".join(parts[parts.index("site-packages") + 1 :])
    return "/".join(parts[-3:])


def loading_rows(run: Run, window: str | None) -> tuple[list[TableRow], ProfileView]:
    """Return data loader events: sums by event and loader worker, and the longest events."""
    table = run.data_loading(window=window)
    keys = ["event", "worker", "worker_id"]
    sums = table.group_by(keys).aggregate([("duration_ns", "count"), ("duration_ns", "sum"), ("duration_ns", "max")])
    summed = sums.rename_columns([*keys, "count", "total_ns", "longest_ns"]).sort_by([("total_ns", "descending")])
    longest = table.sort_by([("duration_ns", "descending")])
    return summed.slice(0, TOP).to_pylist(), limited(longest)


def horovod_rows(run: Run) -> ProfileView:
    """Return Horovod's timeline by tensor and activity, the longest first."""
    table = run.horovod()
    keys = ["tensor", "activity"]
    sums = table.group_by(keys).aggregate([("duration_ns", "count"), ("duration_ns", "sum"), ("duration_ns", "max")])
    totals = sums.rename_columns([*keys, "count", "total_ns", "longest_ns"]).sort_by([("total_ns", "descending")])
    return limited(totals)


def steps_in(run: Run, window: str) -> int:
    """Return the number of steps of a window."""
    for row in run.profiles().to_pylist():
        if row["id"] == window:
            return max(1, int(row["steps"]))
    return 1
