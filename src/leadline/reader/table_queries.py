"""Tables of a run: its records in long format, as Arrow tables and as data frames of other libraries."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import MissingExtraError, UnknownNameError
from leadline.reader import data_frames, tables
from leadline.reader.archive import Archive
from leadline.reader.feed import CLOCK

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class TableQueries:
    """The methods of ``Run`` that return tables."""

    path: str
    archive: Archive

    def scalars(self, name: str | None = None, mode: str | None = None) -> pa.Table:
        """Return losses, metrics and other scalars.

        Shape:
            One row per value: ``name, step`` (the global step)``, mode, mode_step, time_ns, worker, value``, ordered by
            name and step.
        Units:
            As captured; times in ns since the epoch.
        Not a number:
            As captured.
        Args:
            name: Only this scalar.
            mode: Only this mode.
        """
        table = tables.concatenate(
            self._series(statistic="value", name=name), tables.SERIES, ("name", "step", "worker")
        ).drop_columns(["statistic"])
        return table.filter(pc.equal(table["mode"], mode)) if mode is not None else table

    def series(self) -> pa.Table:
        """Return all captured statistics: ``name, statistic, step, mode, mode_step, time_ns, worker, value``."""
        return tables.concatenate(self._series(), tables.SERIES)

    def system_metrics(
        self,
        kind: str | None = None,
        device: str | None = None,
        metric: str | None = None,
        *,
        node: str | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> pa.Table:
        """Return the system metrics of the nodes.

        Shape:
            One row per sample: ``time_ns, node, kind, device, metric, value``, ordered by time.
        Units:
            As in the suffix of the metric: ``_percent``, ``_bytes`` …; times in ns since the epoch. Values that could
            not be read have no row.
        Args:
            kind, device, metric, node: Only these; None for all.
            start_ns, end_ns: Only samples with ``start_ns <= time_ns < end_ns``; None for no limit.
        """
        return tables.system_metrics(
            self.archive.system, kind=kind, device=device, metric=metric, node=node, start_ns=start_ns, end_ns=end_ns
        )

    def timeline(
        self,
        name: str | None = None,
        *,
        worker: str | None = None,
        phase: str | None = None,
        start_step: int | None = None,
        end_step: int | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> pa.Table:
        """Return the phases and events of the workers.

        Shape:
            One row per event: ``worker, name, phase, step`` (the global step)``, start_ns, duration_ns, thread, args``,
            ordered by start; ``args`` is a JSON object. In very fast trainings only every Nth step is written; the
            ``args`` of its row
            ``step`` contain the number of steps that it represents: ``{"every": 8}``.
        Units:
            ns since the epoch, and ns.
        Args:
            name: Only rows of this name: ``step``, ``data``, ``forward`` …
            worker, phase: Only these; the phase of a step is its mode, the phase of the startup ``initialization``.
            start_step, end_step: Only global steps ``start_step <= step < end_step``; None for no limit.
            start_ns, end_ns: Only rows that overlap the interval: they end after ``start_ns`` and start before
                ``end_ns``.
        """
        rows = tables.timeline(self.archive.timeline, worker=worker, name=name, phase=phase)
        rows = tables.between(rows, "step", start_step, end_step)
        if start_ns is not None:
            ends = pc.add(rows["start_ns"], rows["duration_ns"])
            rows = rows.filter(pc.or_(pc.greater(ends, start_ns), pc.equal(rows["start_ns"], start_ns)))
        return tables.between(rows, "start_ns", None, end_ns)

    def findings(self) -> pa.Table:
        """Return the findings of the run's rules.

        Shape:
            One row per finding, in its latest version: ``rule, id, step, last_step, is_open, time_ns, message,
            suggestion, tensors, tensor_count, worker, count, evidence, global_step``, ordered by step; ``step`` and
            ``last_step`` are train steps, and ``evidence`` is a JSON object.
        """
        return tables.findings_table(self.path)

    def sql(self, query: str) -> pa.Table:
        """Run a DuckDB query on the tables ``series``, ``scalars``, ``system``, ``timeline`` and ``findings``.

        Raises:
            MissingExtraError: DuckDB is not installed.
            duckdb.Error: The query is invalid.
        Example:
            >>> run = leadline.open_run()
            >>> run.sql("select step, value from scalars where mode = 'train' and value < 0.4").to_pylist()
            [{'step': 2, 'value': 0.3333333333333333}, {'step': 3, 'value': 0.25}]
        """
        try:
            import duckdb
        except ImportError as error:
            raise MissingExtraError("sql() needs DuckDB; install it with: pip install 'leadline[ui]'") from error
        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            for name, source in self._tables().items():
                if re.search(rf"\b{name}\b", query, re.IGNORECASE):
                    connection.register(name, source())
            return connection.sql(query).to_arrow_table()

    def to_pandas(self, table: str = "scalars") -> pd.DataFrame:
        """Return a table as a data frame of pandas.

        Args:
            table: ``scalars``, ``series``, ``system``, ``timeline`` or ``findings``: the tables of ``sql``.
        Raises:
            UnknownNameError: There is no such table.
            MissingExtraError: pandas is not installed.
        """
        return data_frames.to_pandas(self._table(table))

    def to_polars(self, table: str = "scalars") -> pl.DataFrame:
        """Return a table as a data frame of Polars.

        Args:
            table: ``scalars``, ``series``, ``system``, ``timeline`` or ``findings``: the tables of ``sql``.
        Raises:
            UnknownNameError: There is no such table.
            MissingExtraError: Polars is not installed.
        """
        return data_frames.to_polars(self._table(table))

    def _table(self, name: str) -> pa.Table:
        known = self._tables()
        if name not in known:
            raise UnknownNameError("table", name, known)
        return known[name]()

    def _tables(self) -> dict[str, Callable[[], pa.Table]]:
        return {
            "series": self.series,
            "scalars": self.scalars,
            "system": self.system_metrics,
            "timeline": self.timeline,
            "findings": self.findings,
        }

    def _series(self, statistic: str | None = None, name: str | None = None) -> list[pa.Table]:
        parts = []
        for stream in self.archive.series.values():
            for column, (index, statistic_name) in enumerate(stream.layout.columns):
                tensor = stream.layout.tensors[index].name
                if tensor == CLOCK or statistic not in (None, statistic_name) or name not in (None, tensor):
                    continue
                table = tables.column_table(stream.worker, stream.batches, column)
                parts.append(tables.with_text_columns(table, tables.SERIES, tensor, statistic_name))
        return parts
