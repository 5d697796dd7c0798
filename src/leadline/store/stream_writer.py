"""Writer of one stream from rows: for imported and for synthetic runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leadline.store import codec
from leadline.store.segments import Segment, SegmentFolder

_MAX_OPEN_SEGMENTS: Final = 64

StreamRow = Mapping[str, Any]
"""The values of a row by the columns of its stream, whose schema tells their types."""


class StreamWriter:
    """Writes one stream: a segment for each layout, with batches numbered over all of them."""

    def __init__(self, part: str, folder: SegmentFolder, batch_rows: int, segment_batches: int) -> None:
        self._part, self._folder = part, folder
        self._batch_rows, self._segment_batches = batch_rows, segment_batches
        self._waiting: dict[Any, list[StreamRow]] = {}
        self._open: dict[Any, tuple[Segment, int]] = {}
        self._sequence = 0
        self._complete_step = -1

    def add(self, key: Any, row: StreamRow) -> None:
        """Add a row; a full batch is written."""
        rows = self._waiting.setdefault(key, [])
        rows.append(row)
        if len(rows) >= self._batch_rows:
            self._write(key)

    def flush(self) -> None:
        """Write the waiting rows; the last batch has the complete step."""
        last = max((row.get("step", -1) for rows in self._waiting.values() for row in rows), default=-1)
        for key in [key for key, rows in self._waiting.items() if rows]:
            is_last = sum(map(bool, self._waiting.values())) == 1
            self._write(key, last if is_last else None)

    def _write(self, key: Any, complete_step: int | None = None) -> None:
        rows = self._waiting.pop(key)
        if self._part == "series":
            self._complete_step = max(self._complete_step, self._completed(rows, complete_step))
        segment, batches = self._segment(key)
        segment.append(self._sequence, len(rows), self._columns(rows))
        self._sequence += 1
        if batches + 1 >= self._segment_batches:
            segment.close()
            del self._open[key]
        else:
            self._open[key] = (segment, batches + 1)

    def _completed(self, rows: list[StreamRow], complete_step: int | None) -> int:
        """Return the complete step: before the last step that was begun, and before all waiting rows."""
        waiting = [row["step"] for rows in self._waiting.values() for row in rows]
        begun = max(row["step"] for row in rows)
        if complete_step is not None:
            begun = max(begun, complete_step) + 1
        return int(min([begun, *waiting])) - 1

    def _segment(self, key: Any) -> tuple[Segment, int]:
        if key not in self._open:
            if len(self._open) >= _MAX_OPEN_SEGMENTS:
                self._open.pop(next(iter(self._open)))[0].close()
            match self._part:
                case "series":
                    schema = codec.series_schema(len(key.columns))
                    self._open[key] = (self._folder.open(schema, codec.series_metadata(key)), 0)
                case "system":
                    self._open[key] = (self._folder.open(codec.SYSTEM, codec.system_metadata(key)), 0)
                case _:
                    self._open[key] = (self._folder.open(codec.TIMELINE, {}), 0)
        return self._open[key]

    def _columns(self, rows: list[StreamRow]) -> codec.Columns:
        kinds = {"series": codec.SERIES_COLUMNS, "system": codec.SYSTEM.columns, "timeline": codec.TIMELINE.columns}
        columns: codec.Columns = {}
        for name, kind in kinds[self._part]:
            match kind:
                case "float64[]":
                    columns[name] = codec.float64_buffer([value for row in rows for value in row[name]])
                case "float64":
                    columns[name] = codec.float64_buffer([row[name] for row in rows])
                case "utf8":
                    columns[name] = [row[name] for row in rows]
                case _:
                    columns[name] = codec.int64_buffer([row.get(name, self._complete_step) for row in rows])
        return columns
