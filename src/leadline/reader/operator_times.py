"""What operators took in a detailed window, summed up for rules."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from leadline.errors import LeadlineError
from leadline.reader.traces import read_rows, read_steps
from leadline.store import layout

MOST_BYTES: Final = 4 << 20
"""Of a compressed trace that is read for rules: unpacked it takes a hundred times as much."""


BIN_NS: Final = 100_000_000


class OperatorKey(NamedTuple):
    """One operator on one device in steps of one mode."""

    mode: str
    device: str
    """``cpu``, ``gpu0`` …: there it is a kernel."""
    operator: str


@dataclass(frozen=True, slots=True)
class OperatorTotal:
    """What the calls of one operator took."""

    calls: int
    own_ns: int
    """Without the operators that it called."""
    p95_ns: float
    """Of a call with all that it called; linear between neighbours."""
    module: str
    """The one in which it took most of its own time; "": none."""


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """A detailed window of a worker."""

    worker: str
    window: str
    first_step: int
    end_step: int
    start_ns: int
    end_ns: int
    whole_ns: int
    """When all of it had been written."""
    step_ns: Mapping[str, int] = field(default_factory=dict)
    """The time of its steps, by mode."""
    by_operator: Mapping[OperatorKey, OperatorTotal] = field(default_factory=dict)
    bins: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Own time by operator, or by kernel and device, in intervals of ``BIN_NS`` since the epoch that it lies in."""
    why: str = ""
    """Why nothing is known of its operators; "": it is."""


def read_operator_times(folder: str, worker: str, document: Mapping[str, Any]) -> OperatorTimes:
    """What operators took in a window; one that cannot be read says why."""
    place = (
        worker,
        str(document["id"]),
        int(document["first_step"]),
        int(document["end_step"]),
        int(document["start_ns"]),
        int(document["end_ns"]),
        whole_at(document),
    )
    try:
        size = os.path.getsize(os.path.join(folder, layout.TRACE))
        if size > MOST_BYTES:
            return OperatorTimes(*place, why=f"its trace has more than {MOST_BYTES >> 20} MiB: ask for fewer steps")
        steps: dict[str, int] = defaultdict(int)
        for each in read_steps(folder):
            steps[each["mode"]] += each["end_ns"] - each["start_ns"]
        rows = list(read_rows(folder))
        bins = cut_up(rows, place[4], place[5])
        return OperatorTimes(*place, step_ns=dict(steps), by_operator=sum_up(rows), bins=bins)
    except (LeadlineError, OSError, KeyError, ValueError) as error:
        return OperatorTimes(*place, why=f"its trace cannot be read: {error}")


def whole_at(document: Mapping[str, Any]) -> int:
    """When all of a window had been written."""
    return int(document.get("written_ns") or document["end_ns"])


def sum_up(rows: Iterable[Mapping[str, Any]]) -> dict[OperatorKey, OperatorTotal]:
    """Calls, summed up by operator."""
    import numpy as np

    lengths: dict[OperatorKey, list[int]] = defaultdict(list)
    modules: dict[OperatorKey, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        key = OperatorKey(row["mode"], row["device"], row["operator"])
        lengths[key].append(row["total_ns"])
        modules[key][row["module"]] += row["own_ns"]
    return {
        key: OperatorTotal(
            len(lengths[key]),
            sum(own.values()),
            float(np.percentile(lengths[key], 95)),
            min(own, key=lambda each: (-own[each], each)),
        )
        for key, own in modules.items()
    }


def cut_up(rows: Iterable[Mapping[str, Any]], start_ns: int, end_ns: int) -> dict[int, dict[str, int]]:
    """Own times in intervals of ``BIN_NS``, all from start to end; a call's is spread evenly over its length."""
    bins: dict[int, dict[str, int]] = {place: {} for place in range(start_ns // BIN_NS, end_ns // BIN_NS + 1)}
    for row in rows:
        name = row["operator"] if row["device"] == "cpu" else f"{row['operator']} on {row['device']}"
        begin, end = row["start_ns"], row["start_ns"] + row["total_ns"]
        for place in range(begin // BIN_NS, max(begin, end - 1) // BIN_NS + 1):
            inside = min(end, (place + 1) * BIN_NS) - max(begin, place * BIN_NS)
            own = row["own_ns"] * inside // row["total_ns"] if row["total_ns"] else 0
            taken = bins.setdefault(place, {})
            taken[name] = taken.get(name, 0) + own
    return bins
