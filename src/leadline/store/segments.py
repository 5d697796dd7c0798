"""Append-only Arrow segments: they grow by whole batches, are truncated after a failed write, and never reopened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from leadline.store import layout
from leadline.store.append_only_file import AppendOnlyFile
from leadline.store.codec import BatchEncoder, Buffer, TableSchema, int64_buffer
from leadline.store.documents import make_subfolder


class Segment(AppendOnlyFile):
    """One Arrow IPC stream file."""

    def __init__(self, path: str, encoder: BatchEncoder) -> None:
        self._encoder = encoder
        super().__init__(path)

    @property
    def schema(self) -> TableSchema:
        return self._encoder.schema

    def append(self, sequence: int, rows: int, columns: Mapping[str, Buffer | Sequence[str]]) -> int:
        """Append one batch and hand it to the kernel.

        Returns:
            The bytes written.
        Raises:
            OSError: The batch was not written; the segment is closed for good.
        """
        return self.write(self._encoder.encode(sequence, rows, columns))

    def append_records(self, sequence: int, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records of integers and texts as one batch; nothing if there are none.

        Raises:
            OSError: See ``append``.
        """
        if not records:
            return
        columns: dict[str, Buffer | Sequence[str]] = {}
        for name, kind in self.schema.columns:
            values = [record[name] for record in records]
            columns[name] = int64_buffer(values) if kind == "int64" else values
        self.append(sequence, len(records), columns)


class SegmentFolder:
    """The segments of one stream, numbered in the order in which they were opened, after those that exist."""

    def __init__(self, run: str, part: str, stream: str) -> None:
        self._run, self._part, self._stream = run, part, stream
        self._ordinal = last_ordinal(os.path.join(run, part, stream))

    def open(self, schema: TableSchema, metadata: Mapping[str, str]) -> Segment:
        """Open the next segment."""
        self._ordinal += 1
        path = os.path.join(self._run, layout.segment(self._part, self._stream, self._ordinal))
        make_subfolder(os.path.dirname(path))
        return Segment(path, BatchEncoder(schema, {"stream": self._stream, **metadata}))


def last_ordinal(folder: str) -> int:
    """Return the highest number of a segment in the folder of a stream; 0 if there is none."""
    try:
        stems = [name.partition(".")[0] for name in os.listdir(folder)]
    except FileNotFoundError:
        return 0
    return max((int(stem) for stem in stems if stem.isdecimal()), default=0)
