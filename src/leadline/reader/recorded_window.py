"""Recorded profile window and its tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from leadline.errors import DamagedRunError


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """A completely written profile window."""

    folder: str
    worker: str
    document: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.document["id"])

    @property
    def kind(self) -> str:
        return str(self.document["kind"])

    def covers(self, *, step: tuple[int, int] | None, time_ns: tuple[int, int] | None) -> bool:
        """Return whether the window overlaps the train steps or the time interval."""
        first, end = train_steps(self.document)
        if step is not None and not (first < step[1] and step[0] < max(end, first + 1)):
            return False
        return time_ns is None or (self.document["start_ns"] < time_ns[1] and time_ns[0] < self.document["end_ns"])


def train_steps(document: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first train step of a window and the one after the last; global steps for earlier versions."""
    names = ("first_train_step", "end_train_step") if "first_train_step" in document else ("first_step", "end_step")
    first, end = (int(document[name]) for name in names)
    return first, end


def train_step_of(document: Mapping[str, Any], steps: Iterable[tuple[int, str]]) -> dict[int, int]:
    """Return the train step of each global step of a window, given with its mode; of other modes the one before."""
    following, _ = train_steps(document)
    if "first_train_step" not in document or document["part"] != "loop":
        return {step: step for step, _ in steps}
    positions = {}
    for step, mode in sorted(set(steps)):
        positions[step] = following if mode == "train" else max(0, following - 1)
        following += mode == "train"
    return positions


def read_table(window: RecordedWindow, name: str) -> pa.Table:
    path = os.path.join(window.folder, name)
    try:
        with pa.OSFile(path) as file, pa.ipc.open_stream(file) as reader:
            table = reader.read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise DamagedRunError(f"{path} cannot be read: {error}") from None
    labels = {"worker": [window.worker] * len(table), "window": [window.id] * len(table)}
    columns = {name: table[name] for name in table.column_names if name not in ("sequence", "crc32")}
    return pa.table({**{key: pa.array(value, pa.string()) for key, value in labels.items()}, **columns})
