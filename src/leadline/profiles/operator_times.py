"""Operator times of a detailed window, aggregated for rules."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from leadline.errors import LeadlineError
from leadline.profiles.trace_steps import read_steps
from leadline.profiles.traces import read_rows
from leadline.records.profile_window import WindowDocument, is_window_document, train_steps
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.run_files import subfolders

MAX_TRACE_BYTES: Final = 4 << 20
"""The largest compressed trace that is read for rules; uncompressed it takes a hundred times as much."""


BIN_NS: Final = 100_000_000


class OperatorKey(NamedTuple):
    """An operator on a device, in the steps of a mode."""

    mode: str
    device: str
    """``cpu``, ``gpu0`` …; on GPUs the operator is a kernel."""
    operator: str


@dataclass(frozen=True, slots=True)
class OperatorTotal:
    """The total times of the calls of an operator."""

    calls: int
    own_ns: int
    """Self time: without the operators that it called."""
    p95_ns: float
    """95th percentile of the total time of a call, interpolated linearly."""
    module: str
    """The module with the largest share of the self time; "" if there is none."""


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """The operator times of a detailed window of a worker."""

    worker: str
    window: str
    first_step: int
    end_step: int
    start_ns: int
    end_ns: int
    written_ns: int
    """When the window was completely written."""
    step_ns: Mapping[str, int] = field(default_factory=dict)
    """The total time of its steps, by mode."""
    by_operator: Mapping[OperatorKey, OperatorTotal] = field(default_factory=dict)
    bins: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Self time by operator, or by kernel and device, in intervals of ``BIN_NS`` since the epoch."""
    why: str = ""
    """Why its operators are unknown; "" if they are known."""


def read_operator_times(folder: str, worker: str, document: WindowDocument) -> OperatorTimes:
    """Read the operator times of a window; ``why`` contains the reason if it cannot be read."""
    header = (
        worker,
        str(document["id"]),
        *train_steps(document),
        int(document["start_ns"]),
        int(document["end_ns"]),
        written_at(document),
    )
    try:
        size = os.path.getsize(os.path.join(folder, layout.TRACE))
        if size > MAX_TRACE_BYTES:
            return OperatorTimes(
                *header, why=f"its trace is larger than {MAX_TRACE_BYTES >> 20} MiB: profile fewer steps"
            )
        steps: dict[str, int] = defaultdict(int)
        for step in read_steps(folder):
            steps[step["mode"]] += step["end_ns"] - step["start_ns"]
        rows = list(read_rows(folder))
        bins = bin_operator_times(rows, header[4], header[5])
        return OperatorTimes(*header, step_ns=dict(steps), by_operator=total_by_operator(rows), bins=bins)
    except (LeadlineError, OSError, KeyError, ValueError) as error:
        return OperatorTimes(*header, why=f"its trace cannot be read: {error}")


def written_at(document: WindowDocument) -> int:
    """Return when a window was completely written."""
    return int(document.get("written_ns") or document["end_ns"])


def total_by_operator(rows: Iterable[Mapping[str, Any]]) -> dict[OperatorKey, OperatorTotal]:
    """Aggregate calls by operator."""
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
            sum(own_ns_by_module.values()),
            float(np.percentile(lengths[key], 95)),
            min(own_ns_by_module, key=lambda module: (-own_ns_by_module[module], module)),
        )
        for key, own_ns_by_module in modules.items()
    }


def bin_operator_times(rows: Iterable[Mapping[str, Any]], start_ns: int, end_ns: int) -> dict[int, dict[str, int]]:
    """Distribute self times over intervals of ``BIN_NS`` from start to end, each evenly over the length of its call."""
    bins: dict[int, dict[str, int]] = {index: {} for index in range(start_ns // BIN_NS, end_ns // BIN_NS + 1)}
    for row in rows:
        name = row["operator"] if row["device"] == "cpu" else f"{row['operator']} on {row['device']}"
        begin, end = row["start_ns"], row["start_ns"] + row["total_ns"]
        for index in range(begin // BIN_NS, max(begin, end - 1) // BIN_NS + 1):
            inside = min(end, (index + 1) * BIN_NS) - max(begin, index * BIN_NS)
            own_ns = row["own_ns"] * inside // row["total_ns"] if row["total_ns"] else 0
            times = bins.setdefault(index, {})
            times[name] = times.get(name, 0) + own_ns
    return bins


class DetailedWindows:
    """Finds completely written windows of steps; each is read only once, even after ``reset``.

    Args:
        run: The run's folder.
    """

    def __init__(self, run: str) -> None:
        self._folder = os.path.join(run, layout.PROFILES)
        self._read: dict[str, OperatorTimes | None] = {}
        """By folder; None for windows of other kinds."""
        self._returned: set[str] = set()

    def reset(self) -> None:
        """Return all windows again."""
        self._returned.clear()

    def read_new(self) -> Iterator[OperatorTimes]:
        """Yield the completely written windows that were not returned yet."""
        for worker in subfolders(self._folder):
            for name in subfolders(os.path.join(self._folder, worker)):
                folder = os.path.join(self._folder, worker, name)
                if folder not in self._returned and self._is_read(folder, worker):
                    self._returned.add(folder)
                    times = self._read[folder]
                    if times is not None:
                        yield times

    def _is_read(self, folder: str, worker: str) -> bool:
        """Read a window once it is completely written; return whether it has been read."""
        if folder not in self._read:
            document = read_document(os.path.join(folder, layout.WINDOW))
            if not is_window_document(document):
                return False
            is_detailed = document.get("kind") == "detailed" and document.get("part", "loop") == "loop"
            self._read[folder] = read_operator_times(folder, worker, document) if is_detailed else None
        return True
