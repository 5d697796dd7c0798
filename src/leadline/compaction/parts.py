"""Writing derived files: rows sorted by key, and their buckets at those widths at which there are much fewer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from leadline.analysis.rollup_schema import Columns, Form
from leadline.reader.compact import ParquetPart, PartWriter, packed, unpacked
from leadline.store import layout
from leadline.store.documents import make_folder

_WORTH: Final = 4
"""A level is kept that has so many times fewer rows than the one below."""
_KEPT_GROUPS: Final = 4
Key = tuple[str, ...]


class FormWriter:
    """Writes one derived file of a form.

    Args:
        place: The folder that holds ``compact``.
        goes: The first and the last go that it tells of.
    """

    def __init__(self, place: str, form: Form, stream: str, goes: tuple[int, int]) -> None:
        path = os.path.join(place, layout.compact_part(form.part, stream, *goes))
        make_folder(os.path.dirname(path))
        self._form, self._writer = form, PartWriter(path, form.schema, form.integers)
        self._keys: dict[Key, int] = {}
        self._levels: list[tuple[int, int, Columns]] = []

    def place(self, key: Key) -> int:
        """The number of a key."""
        return self._keys.setdefault(key, len(self._keys))

    def add(self, key: Key, own: Columns) -> None:
        """Rows of a key, ascending, and their buckets."""
        self.add_levels(key, own, coarser_levels(self._form, own))

    def add_levels(self, key: Key, own: Columns, levels: Mapping[int, Columns]) -> None:
        """Rows of a key with their buckets by width."""
        number = self.place(key)
        self._writer.add(0, number, {name: own[name] for name in self._form.own})
        self._levels += [
            (width, number, {name: np.ascontiguousarray(each) for name, each in columns.items()})
            for width, columns in levels.items()
        ]

    def close(self, said: Mapping[str, Any]) -> None:
        """Finish; what is said must tell the ``position``."""
        for each in sorted(self._levels, key=lambda each: each[:2]):
            self._writer.add(*each)  # together, so that who asks for buckets decodes no rows
        self._writer.close({"keys": [list(each) for each in self._keys], **said})

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._writer.abandon()


def coarser_levels(form: Form, own: Columns) -> dict[int, Columns]:
    """The buckets of rows at the widths that are worth it, each made of those before."""
    found: dict[int, Columns] = {}
    finer = form.fill(own)
    for width in form.widths:
        coarser = form.reduce(finer, width)
        if len(coarser[form.axis]) * _WORTH <= len(finer[form.axis]):
            found[width] = finer = coarser
    return found


def merge(place: str, form: Form, stream: str, parts: Sequence[ParquetPart]) -> None:
    """Put derived files that follow each other into one, and remove them."""
    parts = [ParquetPart(each.path, each.first, each.last, kept_groups=_KEPT_GROUPS) for each in parts]
    writer = FormWriter(place, form, stream, (parts[0].first, parts[-1].last))
    try:
        keys = dict.fromkeys(tuple(key) for part in parts for key in part.said["keys"])
        for key in keys:
            own, levels = _gathered(form, parts, key)
            writer.add_levels(key, own, levels)
        writer.close(merged_words([part.said for part in parts]))
    except BaseException:
        writer.abandon()
        raise
    for part in parts:
        os.unlink(part.path)


def merged_words(said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a file says that was made of several: the last word, the whole span, all tensors."""
    found = {key: value for key, value in said[-1].items() if key not in ("format", "runs", "keys")}
    for name, choose in (("start_ns", min), ("end_ns", max)):
        told = [each[name] for each in said if each.get(name) is not None]
        found[name] = choose(told) if told else None
    if "steps" in found:
        spans = [each["steps"] for each in said if each["steps"]]
        found["steps"] = [min(each[0] for each in spans), max(each[1] for each in spans)] if spans else None
        found["marks"] = [mark for each in said for mark in each.get("marks", ())]
        found["events"] = packed(pa.concat_tables([unpacked(each["events"]) for each in said]))
    if "tensors" in found:
        found["tensors"] = list({each[0]: each for one in reversed(said) for each in one["tensors"]}.values())
    return found


def _gathered(form: Form, parts: Sequence[ParquetPart], key: Key) -> tuple[Columns, dict[int, Columns]]:
    """The rows of a key in all files, and its buckets; those that lie in two files are put together."""
    own: list[Columns] = []
    kept: dict[int, list[Columns]] = {}
    for part in parts:
        number = part.number(key)
        if number is None:
            continue
        own.append(part.read(0, [number], form.own)[1])
        for width in part.widths(number):
            kept.setdefault(width, []).append(part.read(width, [number], form.schema.names)[1])
    rows = _in_order(form, own)
    whole = [width for width in form.widths if len(kept.get(width, ())) == len(own)]
    levels = {width: form.reduce(_in_order(form, kept[width]), width) for width in whole}
    return rows, {**levels, **_missing(form, rows, levels)}


def _missing(form: Form, rows: Columns, levels: Mapping[int, Columns]) -> dict[int, Columns]:
    """The levels that are worth it now that there is more, where not every file had them."""
    if not levels:
        return coarser_levels(form, rows)
    coarsest = max(levels)
    found: dict[int, Columns] = {}
    finer = levels[coarsest]
    for width in form.widths:
        if width > coarsest:
            coarser = form.reduce(finer, width)
            if len(coarser[form.axis]) * _WORTH <= len(finer[form.axis]):
                found[width] = finer = coarser
    return found


def _in_order(form: Form, parts: Sequence[Columns]) -> Columns:
    joined = {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}
    axis = joined[form.axis]
    if bool(np.all(axis[1:] >= axis[:-1])):
        return joined
    order = np.argsort(axis, kind="stable")
    return {name: each[order] for name, each in joined.items()}


def runs_of(keys: Any) -> Iterator[tuple[int, slice]]:
    """Stretches of equal numbers, in order."""
    edges = np.flatnonzero(np.diff(keys)) + 1
    for start, end in zip([0, *edges.tolist()], [*edges.tolist(), len(keys)], strict=True):
        if end > start:
            yield int(keys[start]), slice(start, end)
