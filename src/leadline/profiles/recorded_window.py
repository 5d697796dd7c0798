"""Recorded profile window and its tables."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pyarrow as pa

from leadline.errors import DamagedRunError
from leadline.records.profile_window import WindowDocument, train_steps
from leadline.store import layout
from leadline.store.run_files import opened_path


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """A completely written profile window."""

    folder: str
    worker: str
    document: WindowDocument

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


def read_table(window: RecordedWindow, name: str) -> pa.Table:
    """Return a table of a window.

    Raises:
        DamagedRunError: It cannot be read.
    """
    path = os.path.join(window.folder, layout.file_name(name))
    try:
        with opened_path(path) as opened, pa.OSFile(opened) as file, pa.ipc.open_stream(file) as reader:
            table = reader.read_all()
    except (OSError, pa.ArrowException) as error:
        raise DamagedRunError(f"{path} cannot be read: {error}") from None
    labels = {"worker": [window.worker] * len(table), "window": [window.id] * len(table)}
    columns = {name: table[name] for name in table.column_names if name not in ("sequence", "crc32")}
    return pa.table({**{key: pa.array(value, pa.string()) for key, value in labels.items()}, **columns})
