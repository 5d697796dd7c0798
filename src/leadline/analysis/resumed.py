"""What was different when a run was resumed: learning rates and losses on both sides, and batches that came again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leadline.errors import LeadlineError
from leadline.reader.run import Run
from leadline.records.incarnations import Interruption, ValueChange

_LEAST_RATIO: Final = 2.0
"""A change by less is what schedules and batches do."""
_LOSSES: Final = 5
"""The median of so many losses on each side counts: single batches differ, and the first loss is before any update."""
_FIRST_STEPS: Final = 6
"""At these steps of a run the batches are fingerprinted, and at the first one of each later process."""
_LEARNING_RATES: Final = ("lr", "learning_rate", "eta")


def interruptions_with_changes(run: Run) -> list[Interruption]:
    """Return the interruptions of a run with what was different after them.

    That is the learning rates and losses that were far from what they had been, and a first batch that was one of the
    first batches of the run.
    """
    found = run.interruptions()
    if not found:
        return []
    rates = run.tensor_names(collection="hyperparameters")
    names = [(name, 1) for name in rates if name.rsplit("/", 1)[-1] in _LEARNING_RATES]
    names += [(name, _LOSSES) for name in run.tensor_names(collection="losses")]
    tables = {name: table for name, _ in names if (table := _values(run, name)) is not None}
    starts = [what.resumed_step for what in found]
    first = _first_batches(run)
    return [
        what
        if what.resumed_step is None
        else replace(
            what,
            changes=tuple(_changes(names, tables, starts, index)),
            repeated_step=_repeated_step(run, first, what.resumed_step),
        )
        for index, what in enumerate(found)
    ]


def _first_batches(run: Run) -> dict[str, list[npt.NDArray[np.float64]]]:
    """Return the fingerprints of the first batches by input of a model; of those that tell batches apart."""
    found = {}
    for name in run.tensor_names(collection="inputs", regex="_input_0$"):
        batches = []
        for step in range(_FIRST_STEPS):
            if (batch := _batch(run, name, step)) is None:
                break
            batches.append(batch)
        different = {batch.tobytes() for batch in batches}
        if len(batches) == len(different) > 1 and all(len(np.unique(batch, axis=0)) > 1 for batch in batches):
            found[name] = batches
    return found


def _repeated_step(run: Run, first: dict[str, list[npt.NDArray[np.float64]]], step: int) -> int | None:
    """Return the one of the first steps whose batch came again at a later one, sample by sample; None: none."""
    for name, batches in first.items() if step >= _FIRST_STEPS else ():
        again = _batch(run, name, step)
        for earlier, batch in enumerate(batches):
            if again is not None and np.array_equal(again, batch):
                return earlier
    return None


def _batch(run: Run, name: str, step: int) -> npt.NDArray[np.float64] | None:
    """Return the fingerprints of the samples of a batch; None: they were not captured."""
    try:
        return run.tensor(name).statistic_array("fingerprints", step, mode="train")
    except LeadlineError:
        return None


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
