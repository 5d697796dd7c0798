"""Export of a run's scalars and statistics as TensorBoard event files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leadline.errors import ConfigurationError, MissingExtraError
from leadline.exports.span import Span
from leadline.exports.training import rows_of
from leadline.reader.tables import between

if TYPE_CHECKING:
    from leadline.reader.run import Run


def export_events(run: Run, folder: str, span: Span) -> int:
    """Write every captured number as a scalar, in one folder for each worker and mode; return their count.

    Raises:
        ConfigurationError: The folder is not empty.
        MissingExtraError: TensorBoard is not installed.
        OSError: A file could not be written.
    """
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        raise MissingExtraError(
            "--to tensorboard needs TensorBoard; install it with: pip install tensorboard"
        ) from None
    if os.path.isdir(folder) and os.listdir(folder):
        raise ConfigurationError(f"-o {folder}: the folder is not empty; choose another one")
    writers: dict[str, Any] = {}
    count = 0
    for row in rows_of(between(run.series(), "time_ns", span.start_ns, span.end_ns)):
        stream = f"{row['worker']}-{row['mode']}"
        if stream not in writers:
            writers[stream] = EventFileWriter(os.path.join(folder, stream))
        tag = row["name"] if row["statistic"] == "value" else f"{row['name']}/{row['statistic']}"
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=row["value"])])
        writers[stream].add_event(Event(wall_time=row["time_ns"] / 1e9, step=row["step"], summary=summary))
        count += 1
    for writer in writers.values():
        writer.close()
    return count
