"""What later incarnations of a resumed run have replaced: readers leave it out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from leadline.reader.segments import Range
from leadline.records.documents import WorkerDocument
from leadline.records.incarnations import Incarnations, Interruption, WorkerStart
from leadline.store import layout
from leadline.store.incarnations import read_incarnations
from leadline.store.run_state import read_workers

if TYPE_CHECKING:
    import numpy.typing as npt

_EVERYTHING: Final = 1 << 62

Cuts = tuple[WorkerStart, ...]
"""The starts of incarnations in the streams of one worker: at each, some of what is before it is replaced."""


@dataclass(frozen=True, slots=True)
class Replacements:
    """What is replaced in the streams of a run.

    Attributes:
        cuts: Those of each worker.
        of_others: Those of workers that an incarnation has not continued.
        is_begun: Whether the last incarnation has begun to record, so that it is known what it replaces.
    """

    cuts: Mapping[str, Cuts] = field(default_factory=dict)
    of_others: Cuts = ()
    is_begun: bool = True

    def of(self, worker: str) -> Cuts:
        """Return the cuts in the streams of a worker."""
        return self.cuts.get(worker, self.of_others)


def read_replacements(run: str) -> Replacements:
    """Read what is replaced in the streams of a run; for a run that was started once, that costs one ``stat``."""
    if not os.path.exists(os.path.join(run, layout.INCARNATIONS)):
        return Replacements()
    return replacements(read_incarnations(run), read_workers(run))


def replacements(incarnations: Incarnations, workers: Mapping[str, WorkerDocument]) -> Replacements:
    """Return what is replaced in the streams of a run.

    A worker that an incarnation has not continued (the job runs on fewer ranks now) is cut where the others are.
    """
    first: dict[int, WorkerStart] = {}
    for document in workers.values():
        for start in document.starts:
            known = first.get(start.number, start)
            first[start.number] = min(known, start, key=lambda candidate: candidate.step)
    of_others = {number: replace(start, **_WHOLE) for number, start in first.items()}
    cuts = {
        worker: tuple((of_others | {start.number: start for start in document.starts}).values())
        for worker, document in workers.items()
    }
    return Replacements(cuts, tuple(of_others.values()), incarnations.number in (0, *first))


_WHOLE: Final[dict[str, Any]] = {"series": _EVERYTHING, "timeline": _EVERYTHING, "tensors": _EVERYTHING}


def without_replaced(batches: Range, part: str, cuts: Cuts) -> Range:
    """Return the rows of batches that no later incarnation has replaced.

    The batches stay, with fewer rows or none. The complete step of a batch is lowered to that of its rows.
    """
    if not cuts or part not in (layout.SERIES, layout.TIMELINE):
        return batches
    sequences = np.repeat(batches.sequences, batches.rows)
    steps = batches.numbers("step")
    keep = np.ones(len(steps), bool)
    for cut in cuts:
        is_before = sequences < (cut.series if part == layout.SERIES else cut.timeline)
        keep &= ~is_before | (_stays(batches, cut) if part == layout.SERIES else steps < cut.step)
    limit = _last_complete(sequences, cuts) if part == layout.SERIES else None
    if keep.all() and (limit is None or bool(np.all(batches.numbers("complete_step") <= limit))):
        return batches
    rows = np.bincount(batches.batch_of_rows()[keep], minlength=len(batches.rows)).astype(np.int64)
    table = batches.table
    if limit is not None:
        complete = pa.array(np.minimum(batches.numbers("complete_step"), limit))
        table = table.set_column(table.schema.get_field_index("complete_step"), "complete_step", complete)
    kept = table.filter(pa.array(keep))
    columns = [column.combine_chunks() for column in kept.columns]
    return replace(batches, table=pa.Table.from_arrays(columns, schema=kept.schema), rows=rows, _numbers={}, _texts={})


def _stays(batches: Range, cut: WorkerStart) -> npt.NDArray[np.bool_]:
    """Return which rows of a series are before the first step of an incarnation, each in its own mode."""
    modes = np.asarray(batches.texts("mode"))
    limits = np.zeros(len(modes), np.int64)
    for mode, steps in cut.steps.items():
        limits[modes == mode] = steps
    stays: npt.NDArray[np.bool_] = batches.numbers("mode_step") < limits
    return stays


def _last_complete(sequences: npt.NDArray[np.int64], cuts: Cuts) -> npt.NDArray[np.int64]:
    """Return the last step for which each row may say that the data before it are complete."""
    limit = np.full(len(sequences), _EVERYTHING)
    for cut in cuts:
        limit = np.where(sequences < cut.series, np.minimum(limit, cut.step - 1), limit)
    return limit


def is_replaced(ordinal: int, step: int, cuts: Iterable[WorkerStart]) -> bool:
    """Return whether a later incarnation has replaced a raw tensor.

    Args:
        ordinal: That of its segment.
        step: Its global step.
    """
    return any(ordinal < cut.tensors and step >= cut.step for cut in cuts)


def interruptions(run: str) -> list[Interruption]:
    """Return the interruptions of a run, in order; of one that was started once, none."""
    if not os.path.exists(os.path.join(run, layout.INCARNATIONS)):
        return []
    begun: dict[int, int] = {}
    new_states: set[int] = set()
    for document in read_workers(run).values():
        for start in document.starts:
            step = start.steps.get("train", 0)
            begun[start.number] = min(begun.get(start.number, step), step)
            new_states |= {start.number} if start.has_new_state else set()
    return [
        Interruption(
            start.status,
            start.exit_status,
            start.ended_ns,
            start.started_ns,
            start.steps,
            begun.get(start.number),
            has_new_state=start.number in new_states,
        )
        for start in read_incarnations(run).starts
    ]
