"""Export of a run's scalars as event files of TensorBoard: of a run that has ended, or while it grows.

``python -m leadline.exports.tensorboard_events RUN FOLDER`` follows a run until its standard input ends.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.errors import ConfigurationError, LeadlineError
from leadline.exports.span import Span
from leadline.exports.training import rows_of
from leadline.formats.event_file import scalar_record, version_record
from leadline.reader.run import open_run
from leadline.reader.table_rows import TableRow
from leadline.reader.tables import between
from leadline.store import layout
from leadline.store.documents import make_folder

if TYPE_CHECKING:
    from leadline.reader.run import Run

_PERIOD_SECONDS: Final = 1.0
_MAX_SHARE: Final = 0.05
"""The largest share of the time for reading: large runs are followed less often."""


def export_events(run: Run, folder: str, span: Span) -> int:
    """Write every captured number as a scalar, in one folder for each worker and mode; return their count.

    Scalars stand at their train step; those of other modes at the train step that had been finished.

    Raises:
        ConfigurationError: The folder is not empty.
        OSError: A file could not be written.
    """
    if os.path.isdir(folder) and os.listdir(folder):
        raise ConfigurationError(f"-o {folder}: the folder is not empty; choose another one")
    return GrowingEvents(folder).update(run, span, is_final=True)


class GrowingEvents:
    """Event files to which the scalars of a run are appended.

    Those of a step are written at the update after the one at which the step was there: they are not captured at once.

    Args:
        folder: Where they are written; it may have other files in it.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._paths: dict[str, str] = {}
        self._seen: dict[str, int] = {}
        """The last global step of each worker that was there at the last update."""
        self._written: dict[str, int] = {}
        """The global step up to which everything of a worker was written."""

    def update(self, run: Run, span: Span, *, is_final: bool) -> int:
        """Write what was not written yet, with ``is_final`` all of it; return the number of scalars.

        Raises:
            OSError: A file could not be written.
        """
        records: dict[str, bytearray] = {}
        count = 0
        table = between(run.series(), "time_ns", span.start_ns, span.end_ns).sort_by("step")
        last = dict(zip(table["worker"].to_pylist(), table["step"].to_pylist(), strict=True))
        until = last if is_final else self._seen
        for row in rows_of(table):
            worker = row["worker"]
            if self._written.get(worker, -1) < row["step"] <= until.get(worker, -1):
                records.setdefault(f"{worker}-{row['mode']}", bytearray()).extend(_record(run, row))
                count += 1
        self._seen, self._written = last, dict(until)
        for stream, content in records.items():
            with open(self._path(stream), "ab") as file:
                if not file.tell():
                    file.write(version_record(run.manifest.started_ns))
                file.write(content)
        return count

    def _path(self, stream: str) -> str:
        if stream not in self._paths:
            folder = os.path.join(self._folder, stream)
            make_folder(folder)
            name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
            self._paths[stream] = os.path.join(folder, name)
        return self._paths[stream]


def _record(run: Run, row: TableRow) -> bytes:
    step = run.archive.axis(row["worker"]).position(row["step"], row["mode"])
    tag = row["name"] if row["statistic"] == "value" else f"{row['name']}/{row['statistic']}"
    with np.errstate(over="ignore"):  # beyond float32: infinity, as with TensorBoard's own writers
        return scalar_record(tag, row["value"], step=step, time_ns=row["time_ns"])


def follow(path: str, folder: str) -> None:
    """Write the scalars of a run as they appear, until the standard input ends; what fails is tried again."""
    events, pause, has_ended = GrowingEvents(folder), _PERIOD_SECONDS, False
    while not has_ended:
        has_ended = bool(select.select([sys.stdin], [], [], pause)[0])
        started = time.monotonic()
        try:
            if layout.is_run(path):
                events.update(open_run(path), Span(), is_final=has_ended)
        except (LeadlineError, OSError) as error:
            if has_ended:
                raise SystemExit(f"leadline: TensorBoard files are incomplete: {error}") from None
        pause = max(_PERIOD_SECONDS, (time.monotonic() - started) / _MAX_SHARE)


if __name__ == "__main__":
    follow(*sys.argv[1:])
