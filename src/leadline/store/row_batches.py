"""How the queued rows of a series become batches."""

from __future__ import annotations

from typing import Final, NamedTuple

from leadline.records.series import SeriesLayout, StepStamp

_MAX_ROWS: Final = 256
_MAX_ORDERED: Final = 64
"""From so many batches of one flush on, rows are put together although batches between have some of their tensors."""


class Row(NamedTuple):
    """A row of a series."""

    layout: SeriesLayout
    stamp: StepStamp
    values: bytes


def in_batches(rows: list[Row]) -> list[list[Row]]:
    """Group rows into batches of one layout each.

    Several layouts may have a tensor in common, such as the loss with and without others. A row joins an earlier batch
    only if no batch after that has any of its tensors: however many of the batches are written before a process is
    killed, no row of a tensor is there without those before it.
    """
    batches: list[list[Row]] = []
    of_layout: dict[int, int] = {}
    of_tensor: dict[str, int] = {}
    for row in rows:
        names = [tensor.name for tensor in row.layout.tensors]
        at = of_layout.get(id(row.layout), -1)
        is_ordered = len(batches) >= _MAX_ORDERED or all(of_tensor.get(name, at) == at for name in names)
        if at < 0 or len(batches[at]) >= _MAX_ROWS or not is_ordered:
            at = of_layout[id(row.layout)] = len(batches)
            batches.append([])
        batches[at].append(row)
        of_tensor |= dict.fromkeys(names, at)
    return batches
