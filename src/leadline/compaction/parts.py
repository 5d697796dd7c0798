"""Writing of derived files: rows sorted by key, and roll-ups at the widths that reduce them considerably."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from leadline.analysis.rollup_schema import Columns, RollupSchema
from leadline.reader.compact import ParquetPart, PartWriter, decode_table, encode_table
from leadline.store import layout
from leadline.store.documents import make_folder

_MIN_REDUCTION: Final = 4
"""A level is kept if it has this many times fewer rows than the next finer one."""
_KEPT_GROUPS: Final = 4
Key = tuple[str, ...]


class RollupWriter:
    """Writes one derived file.

    Args:
        folder: The parent of ``compact``.
        passes: The first and last pass that the file covers.
    """

    def __init__(self, folder: str, rollup: RollupSchema, stream: str, passes: tuple[int, int]) -> None:
        path = os.path.join(folder, layout.compact_part(rollup.part, stream, *passes))
        make_folder(os.path.dirname(path))
        self._rollup, self._writer = rollup, PartWriter(path, rollup.schema, rollup.integers)
        self._keys: dict[Key, int] = {}
        self._levels: list[tuple[int, int, Columns]] = []

    def number(self, key: Key) -> int:
        """Return the number of a key."""
        return self._keys.setdefault(key, len(self._keys))

    def add(self, key: Key, rows: Columns) -> None:
        """Add rows of a key, in ascending order, and compute their roll-ups."""
        self.add_levels(key, rows, coarser_levels(self._rollup, rows))

    def add_levels(self, key: Key, rows: Columns, levels: Mapping[int, Columns]) -> None:
        """Add rows of a key with their roll-ups by width."""
        number = self.number(key)
        self._writer.add(0, number, {name: rows[name] for name in self._rollup.row_columns})
        self._levels += [
            (width, number, {name: np.ascontiguousarray(values) for name, values in columns.items()})
            for width, columns in levels.items()
        ]

    def close(self, metadata: Mapping[str, Any]) -> None:
        """Finish the file; the metadata must contain the ``position``."""
        for level in sorted(self._levels, key=lambda level: level[:2]):
            self._writer.add(*level)  # together, so that reading a roll-up decodes no rows
        self._writer.close({"keys": [list(key) for key in self._keys], **metadata})

    def abandon(self) -> None:
        """Delete the incomplete file."""
        self._writer.abandon()


def coarser_levels(rollup: RollupSchema, rows: Columns) -> dict[int, Columns]:
    """Return the roll-ups of rows at the widths that reduce them enough, each computed from the one before."""
    levels: dict[int, Columns] = {}
    finer = rollup.fill(rows)
    for width in rollup.widths:
        coarser = rollup.reduce(finer, width)
        if len(coarser[rollup.axis]) * _MIN_REDUCTION <= len(finer[rollup.axis]):
            levels[width] = finer = coarser
    return levels


def merge(folder: str, rollup: RollupSchema, stream: str, parts: Sequence[ParquetPart]) -> None:
    """Merge consecutive derived files into one, and remove them."""
    parts = [ParquetPart(part.path, part.first, part.last, kept_groups=_KEPT_GROUPS) for part in parts]
    writer = RollupWriter(folder, rollup, stream, (parts[0].first, parts[-1].last))
    try:
        keys = dict.fromkeys(tuple(key) for part in parts for key in part.metadata["keys"])
        for key in keys:
            rows, levels = _merged_key(rollup, parts, key)
            writer.add_levels(key, rows, levels)
        writer.close(merged_metadata([part.metadata for part in parts]))
    except BaseException:
        writer.abandon()
        raise
    for part in parts:
        os.unlink(part.path)


def merged_metadata(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the metadata of a merged file: the last values, the whole time span, all tensors."""
    merged = {key: value for key, value in parts[-1].items() if key not in ("format", "runs", "keys")}
    for name, choose in (("start_ns", min), ("end_ns", max)):
        times = [part[name] for part in parts if part.get(name) is not None]
        merged[name] = choose(times) if times else None
    if "steps" in merged:
        spans = [part["steps"] for part in parts if part["steps"]]
        merged["steps"] = [min(span[0] for span in spans), max(span[1] for span in spans)] if spans else None
        merged["marks"] = [mark for part in parts for mark in part.get("marks", ())]
        merged["events"] = encode_table(pa.concat_tables([decode_table(part["events"]) for part in parts]))
    if "tensors" in merged:
        merged["tensors"] = list({tensor[0]: tensor for part in reversed(parts) for tensor in part["tensors"]}.values())
    return merged


def _merged_key(rollup: RollupSchema, parts: Sequence[ParquetPart], key: Key) -> tuple[Columns, dict[int, Columns]]:
    """Return rows and roll-ups of a key in all files; buckets that are in two files are combined."""
    rows_by_part: list[Columns] = []
    by_width: dict[int, list[Columns]] = {}
    for part in parts:
        number = part.number(key)
        if number is None:
            continue
        rows_by_part.append(part.read(0, [number], rollup.row_columns)[1])
        for width in part.widths(number):
            by_width.setdefault(width, []).append(part.read(width, [number], rollup.schema.names)[1])
    rows = _in_order(rollup, rows_by_part)
    common = [width for width in rollup.widths if len(by_width.get(width, ())) == len(rows_by_part)]
    levels = {width: rollup.reduce(_in_order(rollup, by_width[width]), width) for width in common}
    return rows, {**levels, **_additional_levels(rollup, rows, levels)}


def _additional_levels(rollup: RollupSchema, rows: Columns, levels: Mapping[int, Columns]) -> dict[int, Columns]:
    """Return the levels that not every file had and that reduce the merged rows enough."""
    if not levels:
        return coarser_levels(rollup, rows)
    coarsest = max(levels)
    additional: dict[int, Columns] = {}
    finer = levels[coarsest]
    for width in rollup.widths:
        if width > coarsest:
            coarser = rollup.reduce(finer, width)
            if len(coarser[rollup.axis]) * _MIN_REDUCTION <= len(finer[rollup.axis]):
                additional[width] = finer = coarser
    return additional


def _in_order(rollup: RollupSchema, parts: Sequence[Columns]) -> Columns:
    joined = {name: np.concatenate([columns[name] for columns in parts]) for name in parts[0]}
    axis = joined[rollup.axis]
    if bool(np.all(axis[1:] >= axis[:-1])):
        return joined
    order = np.argsort(axis, kind="stable")
    return {name: values[order] for name, values in joined.items()}


def runs_of(keys: Any) -> Iterator[tuple[int, slice]]:
    """Yield ranges of equal numbers, in order."""
    edges = np.flatnonzero(np.diff(keys)) + 1
    for start, end in zip([0, *edges.tolist()], [*edges.tolist(), len(keys)], strict=True):
        if end > start:
            yield int(keys[start]), slice(start, end)
