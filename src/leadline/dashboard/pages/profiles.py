"""The page Profiles of a run: what its profiling windows hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.dashboard import profile_view as view
from leadline.dashboard.charts import Chart, Question
from leadline.dashboard.page import opened, render
from leadline.dashboard.query_parameters import whole_number
from leadline.dashboard.run_cache import OpenedRun
from leadline.errors import LeadlineError
from leadline.reader.python_profiles import CallTrees, PythonProfile
from leadline.reader.run import Run
from leadline.records.profile_window import TIMERS

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

VIEWS: Final = {
    "windows": "Windows",
    "operators": "Operators",
    "python": "Python",
    "loading": "Data loading",
    "memory": "Out of memory",
    "horovod": "Horovod",
    "difference": "Difference",
}
_BY: Final = ("phase", "module", "operator")
_TOLD: Final = (
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
_PYTHON: Final = ("pyinstrument", "cprofile:total", "cprofile:cpu", "cprofile:off_cpu")


def profiles(request: Request) -> Response:
    """``/runs/{run}/profiles``; ``?view=`` chooses the part."""
    found = opened(request)
    asked = request.query_params
    chosen = asked.get("view") if asked.get("view") in VIEWS else "windows"
    with found.lock:
        said: dict[str, Any] = {"view": chosen, "views": VIEWS, "missing": "", "top": view.TOP, "kinds": view.KINDS}
        try:
            said |= _PARTS[str(chosen)](found.run, asked)
        except LeadlineError as error:
            said["missing"] = str(error)
    return render(request, f"profiles_{chosen}.html", said, page="profiles")


def _windows(run: Run, asked: QueryParams) -> dict[str, Any]:
    return {"windows": view.windows(run), "asked": view.asked_windows(run)}


def _operators(run: Run, asked: QueryParams) -> dict[str, Any]:
    known = view.windows(run, "detailed")
    window, worker = asked.get("window") or (known[0]["id"] if known else None), asked.get("worker") or None
    by = [each for each in asked.getlist("by") if each in view.GROUPS] or list(_BY)
    calls = run.operator_calls(window=window, worker=worker)
    choices = view.choices_of(calls, "phase", "device", "step", "worker")
    told = {name: asked.get(name) or "" for name in ("phase", "device", "module", "step")}
    shown = view.operator_rows(
        run,
        by,
        window=window,
        worker=worker,
        phase=told["phase"] or None,
        words=told["module"],
        device=told["device"] or None,
        step=whole_number(told["step"]),
    )
    has_memory = any(each["memory_bytes"] is not None for each in shown.rows)
    return {
        "windows": known,
        "window": window,
        "worker": worker or "",
        "by": by,
        "groups": view.GROUPS,
        "choices": choices,
        "told": told,
        "shown": shown,
        "has_memory": has_memory,
    }


def _python(run: Run, asked: QueryParams) -> dict[str, Any]:
    known = view.windows(run, "cprofile", "pyinstrument")
    there = {_profiler_of(each) for each in known}
    profiler = asked.get("profiler") or ""
    if profiler not in _PYTHON:
        profiler = next((each for each in _PYTHON if each in there), "pyinstrument")
    mine = [each for each in known if _profiler_of(each) == profiler]
    parts = list(dict.fromkeys(each["part"] for each in mine))
    told = {name: asked.get(name) or "" for name in _TOLD}
    part = asked.get("part") if asked.get("part") in parts else (parts[0] if parts else "loop")
    profile = _profile(run, profiler, str(part), told)
    everything = _profile(run, profiler, str(part), {"window": told["window"], "worker": told["worker"]}).slices()
    choices = view.choices_of(everything, "step", "mode", "phase", "worker")
    order = asked.get("order") if asked.get("order") in view.ORDERS else "own"
    return {
        "profilers": [each for each in _PYTHON if each in there],
        "profiler": profiler,
        "windows": mine,
        "parts": parts,
        "part": part,
        "told": told,
        "interval": _interval(told),
        "order": order,
        "orders": view.ORDERS,
        "choices": choices,
        "changes": [f"{one}:{other}" for one in choices["mode"] for other in choices["mode"] if one != other],
        "shown": view.function_rows(profile, str(order), told["words"]),
        "short": view.short_file,
        "callers": view.caller_rows(profile, told["function"]) if told["function"] else None,
        "is_tree": isinstance(profile, CallTrees),
    }


def _profiler_of(window: dict[str, Any]) -> str:
    return f"cprofile:{window['timer']}" if window["kind"] == "cprofile" else str(window["kind"])


def _profile(run: Run, profiler: str, part: str, told: dict[str, str]) -> PythonProfile:
    kind, _, timer = profiler.partition(":")
    return run.python_profile(
        kind=kind,
        timer=timer if timer in TIMERS else "total",
        part=part,
        window=told.get("window") or None,
        worker=told.get("worker") or None,
        step=whole_number(told.get("step") or ""),
        mode=told.get("mode") or None,
        phase=told.get("phase") or None,
        between=_change(told.get("between") or ""),
        time_ns=_interval(told),
    )


def _change(text: str) -> tuple[str, str] | None:
    """``eval:train``: the steps of the second mode that follow one of the first."""
    before, _, after = text.partition(":")
    return (before, after) if before and after else None


def _interval(told: dict[str, str]) -> tuple[int, int] | None:
    start, end = (whole_number(told.get(each) or "") for each in ("start_ns", "end_ns"))
    return (start, end) if start is not None and end is not None else None


def _loading(run: Run, asked: QueryParams) -> dict[str, Any]:
    known = view.windows(run, "dataloader")
    window = asked.get("window") or None
    sums, longest = view.loading_rows(run, window)
    return {"windows": known, "window": window or "", "sums": sums, "longest": longest}


def _memory(run: Run, asked: QueryParams) -> dict[str, Any]:
    return {"snapshots": run.out_of_memory()[-20:]}


def _horovod(run: Run, asked: QueryParams) -> dict[str, Any]:
    return {"shown": view.horovod_rows(run)}


def _difference(run: Run, asked: QueryParams) -> dict[str, Any]:
    """Two windows of one kind beside each other."""
    known = view.windows(run, "detailed", "cprofile", "pyinstrument")
    ids = [each["id"] for each in known]
    after = asked.get("after") if asked.get("after") in ids else (ids[0] if ids else "")
    kind = next((each["kind"] for each in known if each["id"] == after), "")
    rest = [each["id"] for each in known if each["kind"] == kind and each["id"] != after]
    before = asked.get("before") if asked.get("before") in rest else (rest[-1] if rest else "")
    told: dict[str, Any] = {"windows": known, "before": before, "after": after, "kind": kind, "shown": None, "keys": ()}
    if not before:
        return told
    keys = ("phase", "module", "operator") if kind == "detailed" else ("function", "file", "line")
    one, other = (_rows_of(run, kind, each, keys, known) for each in (str(before), str(after)))
    steps = (view.steps_in(run, str(before)), view.steps_in(run, str(after)))
    modes = [_modes_of(run, str(each), known) for each in (before, after)]
    shown = view.difference(one, other, keys, steps=steps)
    return {**told, "keys": keys, "shown": shown, "short": view.short_file, "modes": modes}


def _rows_of(
    run: Run, kind: str, window: str, keys: tuple[str, ...], known: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    table = (
        run.operators(keys, window=window) if kind == "detailed" else _functions(run, window, known).top("own", None)
    )
    return list(table.to_pylist())


def _modes_of(run: Run, window: str, known: list[dict[str, Any]]) -> list[str]:
    """The modes of the steps that a window covers."""
    is_detailed = any(each["id"] == window and each["kind"] == "detailed" for each in known)
    table = run.operator_calls(window=window) if is_detailed else _functions(run, window, known).slices()
    return [str(each) for each in view.choices_of(table, "mode")["mode"]]


def _functions(run: Run, window: str, known: list[dict[str, Any]]) -> PythonProfile:
    meant = next(each for each in known if each["id"] == window)
    return run.python_profile(kind=meant["kind"], timer=meant["timer"], part=meant["part"], window=window)


_PARTS: Final[dict[str, Callable[[Run, QueryParams], dict[str, Any]]]] = {
    "windows": _windows,
    "operators": _operators,
    "python": _python,
    "loading": _loading,
    "memory": _memory,
    "horovod": _horovod,
    "difference": _difference,
}


# --- charts --------------------------------------------------------------------------------------------------


def _flame(found: OpenedRun, question: Question) -> Figure:
    from leadline.analysis.call_tree import call_tree
    from leadline.figures import flames

    told = {name: question.get(name) or "" for name in _TOLD}
    told |= {"start_ns": str(question.start_ns or ""), "end_ns": str(question.end_ns or "")}
    profile = _profile(found.run, "pyinstrument", question.get("part") or "loop", told)
    assert isinstance(profile, CallTrees)
    return flames.icicle(call_tree(profile.flames()))


def _window_timeline(found: OpenedRun, question: Question) -> Figure:
    from leadline.figures.profile_window import window

    calls = found.run.operator_calls(
        window=question.get("window"), worker=question.get("worker"), step=whole_number(question.get("step") or "")
    )
    return window(calls)


def _data_loading(found: OpenedRun, question: Question) -> Figure:
    from leadline.figures import phases

    return phases.lanes(view.loading_lanes(found.run, question.get("window")), title="Data loading over time")


ROUTES: Final = [Route("/runs/{run}/profiles", profiles)]
CHARTS: Final[dict[str, Chart]] = {"flame": _flame, "window-timeline": _window_timeline, "data-loading": _data_loading}
