"""Profiles page of a run: recorded profile windows and their contents."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.dashboard import profile_view as view
from leadline.dashboard.page import open_run, render
from leadline.dashboard.query_parameters import parse_integer
from leadline.errors import LeadlineError
from leadline.reader.python_profiles import CallTrees, PythonProfile
from leadline.reader.run import Run
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
_PARAMETERS: Final = (
    "window",
    "worker",
    "step",
    "mode",
    "phase",
    "between",
    "start_ns",
    "end_ns",
    "words",
    "function",
)
_PROFILERS: Final = ("pyinstrument", "cprofile:total", "cprofile:cpu", "cprofile:off_cpu")


def profiles(request: Request) -> Response:
    """Serve ``/runs/{run}/profiles``; ``?view=`` selects the part."""
    opened = open_run(request)
    parameters = request.query_params
    part = parameters.get("view") if parameters.get("view") in VIEWS else "windows"
    with opened.lock:
        context: dict[str, Any] = {"view": part, "views": VIEWS, "missing": "", "top": view.TOP, "kinds": view.KINDS}
        try:
            context |= _PARTS[str(part)](opened.run, parameters)
        except LeadlineError as error:
            context["missing"] = str(error)
    return render(request, f"profiles_{part}.html", context, page="profiles")


def _windows(run: Run, parameters: QueryParams) -> dict[str, Any]:
    return {"windows": view.windows(run), "requests": view.requested_profiles(run)}


def _operators(run: Run, parameters: QueryParams) -> dict[str, Any]:
    windows = view.windows(run, "detailed")
    window, worker = (
        parameters.get("window") or (windows[0]["id"] if windows else None),
        parameters.get("worker") or None,
    )
    by = [column for column in parameters.getlist("by") if column in view.GROUPS] or list(_DEFAULT_GROUPS)
    calls = run.operator_calls(window=window, worker=worker)
    choices = view.choices_of(calls, "phase", "device", "step", "worker")
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
    operators = view.limited(table)
    has_memory = any(row["memory_bytes"] is not None for row in operators.rows)
    return {
        "windows": windows,
        "window": window,
        "worker": worker or "",
        "by": by,
        "groups": view.GROUPS,
        "choices": choices,
        "filters": filters,
        "table": operators,
        "has_memory": has_memory,
    }


def _python(run: Run, parameters: QueryParams) -> dict[str, Any]:
    windows = view.windows(run, "cprofile", "pyinstrument")
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
    choices = view.choices_of(all_slices, "step", "mode", "phase", "worker")
    order = parameters.get("order") if parameters.get("order") in view.ORDERS else "own"
    return {
        "profilers": [profiler for profiler in _PROFILERS if profiler in available],
        "profiler": profiler,
        "windows": windows_of_profiler,
        "parts": parts,
        "part": part,
        "filters": filters,
        "interval": _interval(filters),
        "order": order,
        "orders": view.ORDERS,
        "choices": choices,
        "changes": [f"{before}:{after}" for before in choices["mode"] for after in choices["mode"] if before != after],
        "table": view.function_rows(profile, str(order), filters["words"]),
        "short_file": view.short_file,
        "callers": view.limited(profile.callers(filters["function"])) if filters["function"] else None,
        "is_tree": isinstance(profile, CallTrees),
    }


def _profiler_of(window: dict[str, Any]) -> str:
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


def _loading(run: Run, parameters: QueryParams) -> dict[str, Any]:
    windows = view.windows(run, "dataloader")
    window = parameters.get("window") or None
    sums, longest = view.loading_rows(run, window)
    return {"windows": windows, "window": window or "", "sums": sums, "longest": longest}


def _memory(run: Run, parameters: QueryParams) -> dict[str, Any]:
    return {"snapshots": run.out_of_memory()[-20:]}


def _horovod(run: Run, parameters: QueryParams) -> dict[str, Any]:
    return {"table": view.horovod_rows(run)}


def _difference(run: Run, parameters: QueryParams) -> dict[str, Any]:
    """Compare two windows of one kind."""
    windows = view.windows(run, "detailed", "cprofile", "pyinstrument")
    ids = [window["id"] for window in windows]
    after = parameters.get("after") if parameters.get("after") in ids else (ids[0] if ids else "")
    kind = next((window["kind"] for window in windows if window["id"] == after), "")
    others = [window["id"] for window in windows if window["kind"] == kind and window["id"] != after]
    before = parameters.get("before") if parameters.get("before") in others else (others[-1] if others else "")
    context: dict[str, Any] = {
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
    steps = (view.steps_in(run, str(before)), view.steps_in(run, str(after)))
    modes = [_modes_of(run, str(window), windows) for window in (before, after)]
    table = view.difference(rows_before, rows_after, keys, steps=steps)
    return {**context, "keys": keys, "table": table, "short_file": view.short_file, "modes": modes}


def _rows_of(
    run: Run, kind: str, window: str, keys: tuple[str, ...], windows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    table = (
        run.operators(keys, window=window) if kind == "detailed" else _functions(run, window, windows).top("own", None)
    )
    return list(table.to_pylist())


def _modes_of(run: Run, window: str, windows: list[dict[str, Any]]) -> list[str]:
    """Return the modes of the steps of a window."""
    is_detailed = any(item["id"] == window and item["kind"] == "detailed" for item in windows)
    table = run.operator_calls(window=window) if is_detailed else _functions(run, window, windows).slices()
    return [str(mode) for mode in view.choices_of(table, "mode")["mode"]]


def _functions(run: Run, window: str, windows: list[dict[str, Any]]) -> PythonProfile:
    row = next(item for item in windows if item["id"] == window)
    return run.python_profile(kind=row["kind"], timer=row["timer"], part=row["part"], window=window)


_PARTS: Final[dict[str, Callable[[Run, QueryParams], dict[str, Any]]]] = {
    "windows": _windows,
    "operators": _operators,
    "python": _python,
    "loading": _loading,
    "memory": _memory,
    "horovod": _horovod,
    "difference": _difference,
}


ROUTES: Final = [Route("/runs/{run}/profiles", profiles)]
