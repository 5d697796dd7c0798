"""View of the Profiles page: recorded profile windows, profile requests, and limited tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leadline.reader.python_profiles import PythonProfile
from leadline.reader.run import Run
from leadline.records.profile_window import ProfileWindow
from leadline.records.request import Acknowledgement, Profile, UnreadableRequest
from leadline.store.control import read_acknowledgements, read_requests

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


@dataclass(frozen=True, slots=True)
class RequestedProfile:
    """A profile request."""

    window: str
    """Window id."""
    description: str
    by: str
    state: str
    """``recorded``, ``refused``, ``taken`` or ``waiting``."""
    answers: tuple[str, ...]
    """Responses of the workers."""


def requested_profiles(run: Run) -> list[RequestedProfile]:
    """Return every profile request, made before the start or while the job ran, with its state."""
    recorded = set(run.profiles()["id"].to_pylist())
    profiles = [_requested_profile(window, "at the start", (), recorded) for window in run.manifest.profile]
    answers = read_acknowledgements(run.path)
    for request in read_requests(run.path):
        if isinstance(request, Profile):
            given, by = answers.get(request.id, ()), request.by or "unknown"
            profiles += [_requested_profile(window, by, given, recorded) for window in request.windows]
        elif isinstance(request, UnreadableRequest) and request.named == Profile.kind:
            profiles.append(RequestedProfile("", "invalid request", request.by or "unknown", "refused", ()))
    return profiles


def _requested_profile(
    window: ProfileWindow, by: str, given: Sequence[Acknowledgement], recorded: set[str]
) -> RequestedProfile:
    if window.id in recorded:
        state = "recorded"
    elif given:
        state = "refused" if all(answer.answer.state == "refused" for answer in given) else "taken"
    else:
        state = "waiting"
    answers = sorted(f"{answer.worker}: {answer.answer}" for answer in given)
    return RequestedProfile(window.id, window.describe(), by, state, tuple(answers))


def windows(run: Run, *kinds: str) -> list[dict[str, Any]]:
    """Return the complete profile windows, the latest first.

    Args:
        kinds: Only these kinds; none: all.
    """
    rows = [{**row, "length_ns": row["end_ns"] - row["start_ns"]} for row in run.profiles().to_pylist()]
    return [row for row in reversed(rows) if not kinds or row["kind"] in kinds]


# --- operators -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProfileView:
    """Rows of a table, and their total number."""

    rows: list[dict[str, Any]]
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


# --- Python functions ----------------------------------------------------------------------------------------


def function_rows(profile: PythonProfile, order: str, filter_text: str) -> ProfileView:
    """Return functions, the longest first.

    Args:
        order: A key of ``ORDERS``.
        filter_text: Only functions whose name or file contains all words of this text.
    """
    table = profile.top(order if order in ORDERS else "own", None)  # type: ignore[arg-type]
    words = filter_text.lower().split()
    if words:
        texts = [f"{row['function']} {row['file']}".lower() for row in table.select(["function", "file"]).to_pylist()]
        table = table.filter(pa.array([all(word in text for word in words) for text in texts], pa.bool_()))
    return limited(table)


def short_file(path: str) -> str:
    """Return the end of a path that identifies the package and file."""
    parts = path.replace("\\", "/").split("/")
    if "site-packages" in parts:
        return "/".join(parts[parts.index("site-packages") + 1 :])
    return "/".join(parts[-3:])


# --- other parts ---------------------------------------------------------------------------------------------


def loading_rows(run: Run, window: str | None) -> tuple[list[dict[str, Any]], ProfileView]:
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
            return max(1, int(row["end_step"]) - int(row["first_step"]))
    return 1
