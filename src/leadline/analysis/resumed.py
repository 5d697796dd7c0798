"""What was different when a run was resumed: the learning rates and losses on both sides of each interruption."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.records.incarnations import Interruption, ValueChange

_LEAST_RATIO: Final = 2.0
"""A change by less is what schedules and batches do."""
_LOSSES: Final = 5
"""The median of so many losses on each side counts: single batches differ, and the first loss is before any update."""
_LEARNING_RATES: Final = ("lr", "learning_rate", "eta")


def interruptions_with_changes(run: Run) -> list[Interruption]:
    """Return the interruptions of a run with the learning rates and losses that were far from what they had been."""
    found = run.interruptions()
    if not found:
        return []
    rates = run.tensor_names(collection="hyperparameters")
    names = [(name, 1) for name in rates if name.rsplit("/", 1)[-1] in _LEARNING_RATES]
    names += [(name, _LOSSES) for name in run.tensor_names(collection="losses")]
    tables = {name: table for name, _ in names if (table := _values(run, name)) is not None}
    starts = [what.resumed_step for what in found]
    return [
        what if what.resumed_step is None else replace(what, changes=tuple(_changes(names, tables, starts, index)))
        for index, what in enumerate(found)
    ]


def _values(run: Run, name: str) -> pa.Table | None:
    """Return the captured values of a scalar in train steps; None: it has none."""
    try:
        table = run.scalars(name, mode="train")
    except LeadlineError:
        return None
    return table.filter(pc.is_finite(table["value"])) if table.num_rows else None


def _changes(
    names: list[tuple[str, int]], tables: dict[str, pa.Table], starts: list[int | None], index: int
) -> Iterator[ValueChange]:
    begun = starts[index] or 0
    first = max((start for start in starts[:index] if start is not None), default=0)
    end = min((start for start in starts[index + 1 :] if start is not None), default=None)
    for name, count in names:
        if name not in tables:
            continue
        steps, values = (tables[name][column].to_numpy() for column in ("mode_step", "value"))
        before = np.flatnonzero((steps >= first) & (steps < begun))[-count:]
        after = np.flatnonzero((steps >= begun) & (steps < (np.inf if end is None else end)))[:count]
        if not len(before) or not len(after):
            continue
        pair = float(np.median(values[before])), float(np.median(values[after]))
        if min(pair) > 0 and max(pair) >= _LEAST_RATIO * min(pair):
            yield ValueChange(name, *pair, int(steps[before[-1]]), int(steps[after[0]]), count)
