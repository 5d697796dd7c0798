"""Export of a run's tables as Parquet or CSV files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import ConfigurationError
from leadline.exports.span import Span
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
