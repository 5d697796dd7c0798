"""Export of a run's tables as Parquet or CSV files, or of its scalars as TensorBoard event files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import ConfigurationError, MissingExtraError
from leadline.exports.span import Span
from leadline.exports.training import rows_of
from leadline.reader.tables import between
from leadline.store.documents import make_folder

if TYPE_CHECKING:
    from leadline.reader.run import Run

Format = Literal["parquet", "csv"]
TABLES: Final = ("series", "system", "timeline", "findings")


def export_tables(run: Run, folder: str, form: Format, span: Span) -> dict[str, int]:
    """Write the tables ``series``, ``system``, ``timeline`` and ``findings`` to one file each; return their row counts.

    Raises:
        ConfigurationError: One of the files already exists.
        OSError: A file could not be written.
    """
    sources: dict[str, Callable[[], pa.Table]] = {
        "series": lambda: between(run.series(), "time_ns", span.start_ns, span.end_ns),
        "system": lambda: run.system_metrics(start_ns=span.start_ns, end_ns=span.end_ns),
        "timeline": lambda: run.timeline(start_ns=span.start_ns, end_ns=span.end_ns),
        "findings": lambda: between(run.findings(), "time_ns", span.start_ns, span.end_ns),
    }
    paths = {name: os.path.join(folder, f"{name}.{form}") for name in TABLES}
    for path in paths.values():
        if os.path.lexists(path):
            raise ConfigurationError(f"-o {folder}: {os.path.basename(path)} already exists; choose another folder")
    make_folder(folder)
    rows = {}
    for name, path in paths.items():
        table = sources[name]()
        _write(table, path, form)
        rows[name] = table.num_rows
    return rows


def _write(table: pa.Table, path: str, form: Format) -> None:
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path, compression="zstd")
    else:
        from pyarrow import csv

        csv.write_csv(_flat(table), path)


def _flat(table: pa.Table) -> pa.Table:
    """Convert lists to strings separated by spaces, since CSV has no lists."""
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            table = table.set_column(index, field.name, pc.binary_join(table[field.name].combine_chunks(), " "))
    return table


def export_events(run: Run, folder: str, span: Span) -> int:
    """Write every captured number as a scalar, in one folder for each worker and mode; return their count.

    Scalars stand at their train step; those of other modes at the train step that had been finished.

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
        step = run.archive.axis(row["worker"]).position(row["step"], row["mode"])
        tag = row["name"] if row["statistic"] == "value" else f"{row['name']}/{row['statistic']}"
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=row["value"])])
        writers[stream].add_event(Event(wall_time=row["time_ns"] / 1e9, step=step, summary=summary))
        count += 1
    for writer in writers.values():
        writer.close()
    return count
