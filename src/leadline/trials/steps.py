"""Saved steps of a trial: the tensors, reductions and shapes of one worker at one step."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy.typing as npt

from leadline.formats.event_file import RecordedTensor, read_tensor
from leadline.records.formatting import counted
from leadline.store.run_files import open_regular
from leadline.trials.folder import DAMAGE, IndexFile, Record, reason

_REDUCTION: Final = "smdebug/reductions/"
_NORMS: Final = {"abs_l1": "l1", "abs_l2": "l2"}


@dataclass(frozen=True, slots=True)
class SavedStep:
    """What one worker saved at one step."""

    index: IndexFile
    time_ns: int
    tensors: dict[str, npt.NDArray[Any]]
    reductions: dict[str, dict[str, float]]
    """The stored reductions, by tensor and smdebug's name: ``mean``, ``abs_max``, ``abs_l1``."""
    damage: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the tensors of which anything was saved."""
        return list(dict.fromkeys([*self.tensors, *self.reductions, *self.index.shapes]))

    def statistics(self, name: str) -> dict[str, float]:
        """Return the stored reductions of a tensor by Leadline's names."""
        reductions = self.reductions.get(name, {})
        return {leadline_statistic(reduction): value for reduction, value in reductions.items()}


def leadline_statistic(reduction: str) -> str:
    """Return Leadline's name of a stored reduction; norms of absolute values are norms."""
    return _NORMS.get(reduction, reduction)


def is_scalar_name(name: str) -> bool:
    """Return whether a tensor was saved by ``save_scalar``."""
    return name.startswith("scalar/")


def read_step(folder: str, index: IndexFile, known: Iterable[str]) -> SavedStep:
    """Read what an index file points to; what cannot be read is named in ``damage``, with its place.

    Args:
        folder: The folder of the tensors.
        known: Names of tensors of the trial, for reductions whose tensor's name was shortened.
    """
    records, damage = _read_records(folder, index)
    saved = SavedStep(index, _time_ns(folder, index, records), {}, {}, damage)
    names = {_without_numbers(name): name for name in (*index.shapes, *known)}
    for record in records:
        if not record.name.startswith(_REDUCTION):
            saved.tensors[record.name] = record.values
            continue
        reduction, _, tensor = record.name.removeprefix(_REDUCTION).partition("/")
        if record.values.size == 1 and record.values.dtype.kind != "U":
            of_tensor = saved.reductions.setdefault(names.get(_without_numbers(tensor), tensor), {})
            of_tensor[reduction] = float(record.values.reshape(-1)[0])
    return saved


def read_record(folder: str, index: IndexFile, name: str) -> RecordedTensor | None:
    """Return the last tensor of a name that a step has; None if it has none.

    Raises:
        OSError: The event file cannot be read.
        ValueError: The record is truncated or damaged.
    """
    record = next((record for record in reversed(index.records) if record.name == name), None)
    if record is None:
        return None
    with open_regular(os.path.join(folder, index.events)) as file:
        return _read_record(file, record, os.fstat(file.fileno()).st_size)


def _read_records(folder: str, index: IndexFile) -> tuple[list[RecordedTensor], list[str]]:
    """Return the whole records of an event file, and a line if some are not."""
    if not index.records:
        return [], []
    found: list[RecordedTensor] = []
    problems: Counter[str] = Counter()
    first = ""
    try:
        with open_regular(os.path.join(folder, index.events)) as file:
            size = os.fstat(file.fileno()).st_size
            for record in index.records:
                try:
                    found.append(_read_record(file, record, size))
                except DAMAGE as error:
                    first = first or f"byte {record.offset:,}: {record.name}: {error}"
                    problems["record"] += 1
    except OSError as error:
        return [], [
            f"{index.events} cannot be read ({reason(error)}); "
            f"{counted(len(index.records), 'record')} of step {index.step} of {index.worker} left out"
        ]
    if not problems:
        return found, []
    left_out = f"{problems['record']} of {counted(len(index.records), 'record')}"
    return found, [f"{index.events} is damaged at {first}; {left_out} left out"]


def _read_record(file: Any, record: Record, size: int) -> RecordedTensor:
    if record.offset + record.length > size:
        raise ValueError(f"the file ends at byte {size:,}")
    file.seek(record.offset)
    tensor = read_tensor(file.read(record.length))
    if tensor.name != record.name:
        raise ValueError(f"its record is that of {tensor.name!r}")
    return tensor


def _time_ns(folder: str, index: IndexFile, records: Iterable[RecordedTensor]) -> int:
    """Return when a step was saved: the time of its last record; without records, that of its index file."""
    latest = max((record.time_ns for record in records), default=0)
    return latest or os.stat(os.path.join(folder, index.path)).st_mtime_ns


def _without_numbers(name: str) -> str:
    """Return a name without ``:0``, as names of reductions are written outside TensorFlow."""
    head, colon, digits = name.rpartition(":")
    return head if colon and digits.isdecimal() else name
