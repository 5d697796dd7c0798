"""The content of a log: numbers by name, at steps."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from leadline.records.json_object import JsonObject

STEP_NAMES: Final = ("step", "global_step", "_step", "steps", "iteration", "iter", "iterations", "it")
"""The names of what counts steps, the likeliest first."""
EPOCH_NAMES: Final = ("epoch", "epochs", "epoch_idx")
TIME_NAMES: Final = ("_timestamp", "timestamp", "time", "wall_time", "date")
_OTHERS: Final = ("_runtime", "runtime", "total_flos")
_BOOKKEEPING: Final = frozenset((*STEP_NAMES, *EPOCH_NAMES, *TIME_NAMES, *_OTHERS))
_LEAST_SECONDS, _MOST_SECONDS = 1e8, 9e9
"""Between 1973 and 2255: other numbers are no times of day."""
_COUNTED: Final = re.compile(r"[A-Za-z]*\D?(\d+)")


@dataclass(frozen=True, slots=True)
class LoggedRow:
    """Numbers that were logged together."""

    values: Mapping[str, float]
    step: int | None = None
    """The train step; None: the log does not say it."""
    time_ns: int | None = None


@dataclass(slots=True)
class TrainingLog:
    """What a log holds.

    Attributes:
        kind: What wrote it, in words: ``the state of a Trainer``.
        unit: What its steps count: ``step``, ``epoch`` or ``row``.
        damage: One line for each part that could not be read.
        hyperparameters: Settings of the training that the log names.
        planned_steps: The steps that its trainer plans; None: the log does not say it.
    """

    kind: str
    rows: list[LoggedRow] = field(default_factory=list)
    unit: str = "step"
    damage: list[str] = field(default_factory=list)
    hyperparameters: JsonObject = field(default_factory=dict)
    planned_steps: int | None = None

    @property
    def names(self) -> set[str]:
        """The names of all numbers."""
        return {name for row in self.rows for name in row.values}


def number(value: Any) -> float | None:
    """Return a value of a log as a number; None: it is none. Texts are read as numbers are written."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def row_of(values: Mapping[str, Any]) -> LoggedRow:
    """Return a row from a record whose keys also name its step and its time."""
    lower = {name.lower(): value for name, value in values.items()}
    numbers = {name: found for name, value in values.items() if (found := number(value)) is not None}
    kept = {name: value for name, value in numbers.items() if name.lower() not in _BOOKKEEPING}
    return LoggedRow(kept, _first(lower, STEP_NAMES), _time_ns(lower))


def epochs_of(values: Mapping[str, Any]) -> float | None:
    """Return the epoch that a record names."""
    lower = {name.lower(): value for name, value in values.items()}
    return next((found for name in EPOCH_NAMES if (found := number(lower.get(name))) is not None), None)


def numbered(kind: str, records: Iterable[Mapping[str, Any]]) -> TrainingLog:
    """Return a log from its records.

    Steps are what the records name as such, if all do and it never falls; else whole epochs; else the rows themselves.
    """
    records = [_flat(record) for record in records if record]
    rows = [row_of(record) for record in records]
    pairs = [(row, epochs_of(record)) for row, record in zip(rows, records, strict=True) if row.values]
    rows, epochs = [row for row, _ in pairs], [epoch for _, epoch in pairs]
    if _is_count([row.step for row in rows]):
        return TrainingLog(kind, rows)
    if _is_count(epochs) and all(epoch == int(epoch) for epoch in epochs if epoch is not None):
        placed = [LoggedRow(row.values, int(epoch or 0), row.time_ns) for row, epoch in zip(rows, epochs, strict=True)]
        return TrainingLog(kind, placed, "epoch")
    placed = [LoggedRow(row.values, index, row.time_ns) for index, row in enumerate(rows)]
    return TrainingLog(kind, placed, "row")


def _flat(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record with the entries of the records in it: ``train/loss``."""
    if not any(isinstance(value, Mapping) for value in record.values()):
        return record
    flat: JsonObject = {}
    for name, value in record.items():
        inner = value if isinstance(value, Mapping) else None
        flat |= {f"{name}/{key}": entry for key, entry in inner.items()} if inner is not None else {name: value}
    return flat


def _is_count(steps: list[int | None] | list[float | None]) -> bool:
    """Return whether numbers count: all are known, none falls below the one before, and more than one is there."""
    known = [step for step in steps if step is not None and step >= 0]
    rises = all(before <= after for before, after in pairwise(known))
    return len(known) == len(steps) and rises and (len(steps) < 2 or known[0] < known[-1])


def _first(values: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """Return the first of some keys that is a whole number, also ``50/1000`` and ``[50]``."""
    for name in names:
        found = number(values.get(name))
        if found is None and isinstance(text := values.get(name), str) and (match := _COUNTED.match(text)):
            found = float(match[1])
        if found is not None and math.isfinite(found) and found == int(found):
            return int(found)
    return None


def _time_ns(values: Mapping[str, Any]) -> int | None:
    for name in TIME_NAMES:
        found = number(values.get(name))
        if found is not None and _LEAST_SECONDS < found < _MOST_SECONDS:
            return int(found * 1e9)
    return None
