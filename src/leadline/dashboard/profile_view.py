"""What profiling windows hold, cut to what a page can show; and what became of those that were asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.reader.python_profiles import PythonProfile
from leadline.reader.run import Run
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import REFUSED
from leadline.store.control import read_acknowledgements, read_requests

TOP: Final = 200
"""So many rows of a table are shown, the dearest."""
GROUPS: Final = ("phase", "module", "operator", "device", "mode", "step")
KINDS: Final = {
    "detailed": "operators",
    "cprofile": "Python functions, every call",
    "pyinstrument": "Python call stacks, sampled",
    "dataloader": "data loading",
}
ORDERS: Final = {"own": "own time", "cumulative": "time with callees", "calls": "calls"}


@dataclass(frozen=True, slots=True)
class RequestedProfile:
    """A window that somebody asked for."""

    window: str
    """Its id."""
    words: str
    by: str
    state: str
    """``recorded``, ``refused``, ``taken`` or ``waiting``."""
    answers: tuple[str, ...]
    """What workers said."""


def asked_windows(run: Run) -> list[RequestedProfile]:
    """Every window that was asked for, before the start or while the job ran, with what became of it."""
    recorded = set(run.profiles()["id"].to_pylist())
    found = [_asked(each, "at the start", (), recorded) for each in run.manifest.profile]
    answers: dict[str, list[str]] = {}
    for acknowledgement in read_acknowledgements(run.path):
        answers.setdefault(acknowledgement.id, []).append(f"{acknowledgement.worker}: {acknowledgement.outcome}")
    for request in read_requests(run.path):
        if request.kind == "profile":
            said = tuple(sorted(answers.get(request.id, ())))
            parameters = request.parameters if isinstance(request.parameters, dict) else {}
            windows = parameters.get("windows")
            for given in windows if isinstance(windows, list) else ():
                found.append(_asked(_window(given), request.by or "somebody", said, recorded))
    return found


def _window(given: Any) -> ProfileWindow | None:
    try:
        window = ProfileWindow.from_dict(given)
        window.spoken()
    except (TypeError, ValueError, AttributeError):
        return None  # somebody left there what is no window
    return window


def _asked(window: ProfileWindow | None, by: str, answers: tuple[str, ...], recorded: set[str]) -> RequestedProfile:
    if window is None:
        return RequestedProfile("", "a request that is none", by, "refused", answers)
    refused = [each for each in answers if each.partition(": ")[2].startswith(REFUSED)]
    if window.id in recorded:
        state = "recorded"
    elif answers and len(refused) == len(answers):
        state = "refused"
    else:
        state = "taken" if answers else "waiting"
    return RequestedProfile(window.id, window.spoken(), by, state, answers)


def windows(run: Run, *kinds: str) -> list[dict[str, Any]]:
    """The windows that are whole, the latest first.

    Args:
        kinds: Only those; none: all.
    """
    rows = [{**each, "length_ns": each["end_ns"] - each["start_ns"]} for each in run.profiles().to_pylist()]
    return [each for each in reversed(rows) if not kinds or each["kind"] in kinds]


# --- operators -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProfileView:
    """Rows of a table, and how many there are in all."""

    rows: list[dict[str, Any]]
    count: int


def operator_rows(
    run: Run,
    by: Sequence[str],
    *,
    window: str | None,
    worker: str | None,
    phase: str | None,
    words: str,
    device: str | None,
    step: int | None,
) -> ProfileView:
    """Operators grouped, the dearest first.

    Args:
        words: Only modules with this in their names.
    """
    table = run.operators(
        by,
        window=window,
        worker=worker,
        phase=phase,
        device=device,
        step=step,
        module=re.escape(words) if words else None,
    )
    return ProfileView(table.slice(0, TOP).to_pylist(), table.num_rows)


def choices_of(calls: pa.Table, *columns: str) -> dict[str, list[Any]]:
    """What each column has, in order."""
    return {
        each: sorted(pc.unique(calls[each]).drop_null().to_pylist()) if each in calls.column_names else []
        for each in columns
    }


def difference(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    *,
    steps: tuple[int, int],
) -> ProfileView:
    """What changed between two windows: own time a step, the largest change first.

    Args:
        keys: Columns that name a row.
        steps: How many steps each window covers.
    """
    found: dict[tuple[Any, ...], list[float]] = {}
    for place, rows in enumerate((before, after)):
        for row in rows:
            sums = found.setdefault(tuple(row[key] for key in keys), [0.0, 0.0])
            sums[place] += row["own_ns"] / max(1, steps[place])
    told = [
        {
            **dict(zip(keys, names, strict=True)),
            "before_ns": one,
            "after_ns": other,
            "change_ns": other - one,
            "ratio": other / one if one else None,
        }
        for names, (one, other) in found.items()
    ]
    told.sort(key=lambda each: -abs(each["change_ns"]))
    return ProfileView(told[:TOP], len(told))


# --- Python functions ----------------------------------------------------------------------------------------


def function_rows(profile: PythonProfile, order: str, words: str) -> ProfileView:
    """Functions, the dearest first.

    Args:
        order: A key of ``ORDERS``.
        words: Only functions with all of these words in their name or file.
    """
    table = profile.top(order if order in ORDERS else "own", None)  # type: ignore[arg-type]
    wanted = words.lower().split()
    if wanted:
        texts = [f"{row['function']} {row['file']}".lower() for row in table.select(["function", "file"]).to_pylist()]
        table = table.filter(pa.array([all(each in text for each in wanted) for text in texts], pa.bool_()))
    return ProfileView(table.slice(0, TOP).to_pylist(), table.num_rows)


def caller_rows(profile: PythonProfile, function: str) -> ProfileView:
    """Who called a function."""
    table = profile.callers(function)
    return ProfileView(table.slice(0, TOP).to_pylist(), table.num_rows)


def short_file(path: str) -> str:
    """The end of a path that says whose file it is."""
    parts = path.replace("\\", "/").split("/")
    if "site-packages" in parts:
        return "/".join(parts[parts.index("site-packages") + 1 :])
    return "/".join(parts[-3:])


# --- other parts ---------------------------------------------------------------------------------------------


def loading_rows(run: Run, window: str | None) -> tuple[list[dict[str, Any]], ProfileView]:
    """What data loaders did: sums by event and worker of the loader, and the longest events."""
    table = run.data_loading(window=window)
    keys = ["event", "worker", "worker_id"]
    sums = table.group_by(keys).aggregate([("duration_ns", "count"), ("duration_ns", "sum"), ("duration_ns", "max")])
    summed = sums.rename_columns([*keys, "count", "total_ns", "longest_ns"]).sort_by([("total_ns", "descending")])
    longest = table.sort_by([("duration_ns", "descending")])
    return summed.slice(0, TOP).to_pylist(), ProfileView(longest.slice(0, TOP).to_pylist(), longest.num_rows)


def loading_lanes(run: Run, window: str | None) -> pa.Table:
    """What data loaders did, for lanes: ``name, phase, start_ns, duration_ns``."""
    rows = run.data_loading(window=window).to_pylist()
    several = len({row["worker"] for row in rows}) > 1
    names = [(f"{row['worker']}: " if several else "") + _lane_of(row) for row in rows]
    columns = {key: [row[key] for row in rows] for key in ("start_ns", "duration_ns")}
    return pa.table({"name": names, "phase": ["data"] * len(rows), **columns})


def _lane_of(row: Mapping[str, Any]) -> str:
    if row["event"] == "wait":
        return "the training waits"
    what = "makes batches" if row["event"] == "fetch" else "makes an iterator"
    return f"worker {row['worker_id']} {what}" if row["worker_id"] is not None else f"the training {what}"


def horovod_rows(run: Run) -> ProfileView:
    """What Horovod told, by tensor and activity, the dearest first."""
    table = run.horovod()
    keys = ["tensor", "activity"]
    sums = table.group_by(keys).aggregate([("duration_ns", "count"), ("duration_ns", "sum"), ("duration_ns", "max")])
    found = sums.rename_columns([*keys, "count", "total_ns", "longest_ns"]).sort_by([("total_ns", "descending")])
    return ProfileView(found.slice(0, TOP).to_pylist(), found.num_rows)


def steps_in(run: Run, window: str) -> int:
    """How many steps a window covers."""
    for each in run.profiles().to_pylist():
        if each["id"] == window:
            return max(1, int(each["end_step"]) - int(each["first_step"]))
    return 1
