"""Steps of a run with the times of their phases, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leadline.reader.interval import parse_row_args
from leadline.records.names import MODES, OVERHEAD, PARTS, PHASES
from leadline.records.phases import STEP_PHASES

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_OWN: Final = r'"own_ns": ?(?P<own>[0-9]+)'
_STEP_BITS: Final = 48


class RunDelay(NamedTuple):
    """How long the training's threads were ready to run, but waited for a processor."""

    share: float
    """The share of the time."""
    ready_share: float
    """The share of the time in which they were running or ready to."""


@dataclass(frozen=True, slots=True)
class StepTable:
    """Steps, ordered by worker, mode and step.

    Units:
        Nanoseconds; a step lasts from the end of the previous step to its own end.
    """

    workers: tuple[str, ...]
    worker: Integers
    """The index of each step's worker, ``(steps,)``."""
    mode: Integers
    """The index of its mode in ``records.names.MODES``."""
    step: Integers
    start_ns: Integers
    duration_ns: Integers
    weight: Integers
    """The number of steps that each row represents."""
    phases: Floats
    """``(steps, PARTS)``: the time of each phase, without the phases nested in it."""
    ready_ns: Floats
    """``(steps, PARTS)``: the time for which the training's thread used a processor in each phase or, where the kernel
    tells, was ready to but waited for one; NaN where it was not taken."""
    thread_ns: Floats
    """``(steps, 2)``: the thread's ready time and run delay from its beginning to the end of each step; NaN where they
    were not taken."""
    mode_step: Integers
    """The step within the mode; -1 where it was not stored."""

    def __len__(self) -> int:
        return len(self.step)

    def only(self, *, mode: str | None = None, worker: str | None = None) -> StepTable:
        """Return the steps of a mode or a worker."""
        keep = np.ones(len(self), bool)
        if mode is not None:
            keep &= self.mode == MODES.index(mode)
        if worker is not None:
            keep &= self.worker == (self.workers.index(worker) if worker in self.workers else -1)
        return self.where(keep)

    def where(self, keep: npt.NDArray[Any]) -> StepTable:
        """Return selected steps."""
        columns = (self.worker, self.mode, self.step, self.start_ns, self.duration_ns, self.weight)
        worker, mode, step, start_ns, duration_ns, weight = (column[keep] for column in columns)
        tables = (self.phases[keep], self.ready_ns[keep], self.thread_ns[keep], self.mode_step[keep])
        return StepTable(self.workers, worker, mode, step, start_ns, duration_ns, weight, *tables)

    def after_first(self) -> StepTable:
        """Return the steps after the first, in which names are found, files are opened and functions are compiled."""
        return self.where(self.step > self.step.min()) if len(self) else self

    def seconds(self) -> float:
        """Return the total time over all workers."""
        return float((self.duration_ns * self.weight).sum()) / 1e9

    def seconds_by_phase(self) -> dict[str, float]:
        """Return the total time of each phase over all workers; phases without time are omitted."""
        sums = (self.phases * self.weight[:, None]).sum(axis=0) / 1e9
        return {name: float(total) for name, total in zip(PARTS, sums, strict=True) if total > 0}

    def ready_shares(self) -> dict[str, float]:
        """Return the share of each phase in which the training's thread did not wait; unknown ones are omitted.

        In that time it used a processor or, where the kernel tells, was ready to but waited for one.
        """
        is_known = ~np.isnan(self.ready_ns)
        weights = np.where(is_known, self.weight[:, None], 0)
        ready_ns = (np.where(is_known, self.ready_ns, 0.0) * weights).sum(axis=0)
        wall_ns = (self.phases * weights).sum(axis=0)
        known = zip(PARTS, ready_ns, wall_ns, strict=True)
        return {name: min(float(ready / wall), 1.0) for name, ready, wall in known if wall > 0}

    def run_delay(self) -> RunDelay | None:
        """Return how long the training's threads waited for a processor between the first step and the last.

        Steps that were left out in between count as well. None: not known.
        """
        is_known = ~np.isnan(self.thread_ns[:, 0])
        workers, ends_ns = self.worker[is_known], (self.start_ns + self.duration_ns)[is_known]
        times_ns = np.column_stack([ends_ns, self.thread_ns[is_known]])[np.lexsort((ends_ns, workers))]
        between_ns = np.diff(times_ns, axis=0)
        is_one_thread = (np.diff(np.sort(workers)) == 0) & (between_ns >= 0).all(axis=1)
        wall_ns, ready_ns, delay_ns = between_ns[is_one_thread].sum(axis=0)
        if wall_ns <= 0 or ready_ns <= 0:
            return None
        return RunDelay(min(float(delay_ns / wall_ns), 1.0), min(float(delay_ns / ready_ns), 1.0))

    def count(self) -> int:
        """Return the number of represented steps over all workers."""
        return int(self.weight.sum())


def read_steps(timeline: pa.Table) -> StepTable:
    """Extract the steps from a timeline.

    Args:
        timeline: As returned by ``Run.timeline``.
    """
    workers = tuple(sorted(pc.unique(timeline["worker"]).to_pylist()))
    step_rows = timeline.filter(pc.and_(pc.equal(timeline["name"], "step"), _is_of_mode(timeline)))
    keys = _keys(step_rows, workers)
    order = np.argsort(keys, kind="stable")
    keys, order = keys[order], order[_is_last(keys[order])]
    keys = np.unique(keys)
    weights = [parse_row_args(row_args)[1] for row_args in step_rows["args"].to_pylist()]
    columns = {name: step_rows[name].to_numpy()[order] for name in ("step", "start_ns", "duration_ns")}
    phases = _phases(timeline, workers, keys)
    phases[:, PARTS.index(OVERHEAD)] = _own_ns(step_rows)[order]
    phases[:, -1] = columns["duration_ns"] - phases[:, :-1].sum(axis=1)
    return StepTable(
        workers,
        keys >> (_STEP_BITS + 2),
        keys >> _STEP_BITS & 3,
        columns["step"],
        columns["start_ns"],
        columns["duration_ns"],
        np.array(weights, np.int64)[order],
        np.maximum(phases, 0.0),
        _ready_ns(step_rows)[order],
        np.column_stack([_numbers(step_rows, name) for name in ("ready_ns", "run_delay_ns")])[order],
        np.nan_to_num(_numbers(step_rows, "mode_step"), nan=-1).astype(np.int64)[order],
    )


def _own_ns(step_rows: pa.Table) -> Integers:
    """Return the overhead of each step as recorded in its row; 0 if it is missing."""
    digits = pc.struct_field(pc.extract_regex(step_rows["args"], _OWN), "own")
    overhead_ns: Integers = pc.fill_null(digits, "0").cast(pa.int64()).to_numpy()
    return overhead_ns


def _ready_ns(step_rows: pa.Table) -> Floats:
    """Return the ready time of each phase of each step as recorded in its row; NaN where it is missing.

    Without a known run delay it is the processor time.
    """
    ready_ns = np.full((step_rows.num_rows, len(PARTS)), np.nan)
    for phase in STEP_PHASES:
        ready_ns[:, PARTS.index(phase)] = _numbers(step_rows, f"{phase}_(?:ready|cpu)_ns")
    return ready_ns


def _numbers(step_rows: pa.Table, name: str) -> Floats:
    """Return a number of each row's args by a pattern of its name; NaN where it is missing."""
    digits = pc.struct_field(pc.extract_regex(step_rows["args"], f'"{name}": ?(?P<digits>[0-9]+)'), "digits")
    numbers: Floats = digits.cast(pa.float64()).to_numpy()
    return numbers


def _phases(timeline: pa.Table, workers: tuple[str, ...], keys: Integers) -> Floats:
    """Return the time of each phase of each step; the last column is not filled in."""
    phases = np.zeros((len(keys), len(PARTS)))
    is_phase = pc.is_in(timeline["name"], pa.array(PHASES))
    rows = timeline.filter(pc.and_(is_phase, _is_of_mode(timeline)))
    if not rows.num_rows or not len(keys):
        return phases
    row_keys = _keys(rows, workers)
    indices = np.minimum(np.searchsorted(keys, row_keys), len(keys) - 1)
    is_known = keys[indices] == row_keys  # steps that were not written can still have phase rows
    durations = rows["duration_ns"].to_numpy().astype(np.float64)
    columns = _indices(rows["name"], {name: index for index, name in enumerate(PARTS)})
    enclosing = {args: parse_row_args(args)[0] for args in pc.unique(rows["args"]).to_pylist()}
    enclosing_columns = {args: PARTS.index(name) for args, name in enclosing.items() if name in PHASES}
    np.add.at(phases, (indices[is_known], columns[is_known]), durations[is_known])
    if enclosing_columns:
        enclosing_column = _indices(rows["args"], enclosing_columns)
        is_inside = is_known & (enclosing_column >= 0)
        np.subtract.at(phases, (indices[is_inside], enclosing_column[is_inside]), durations[is_inside])
    return phases


def _keys(rows: pa.Table, workers: tuple[str, ...]) -> Integers:
    """Encode worker, mode and step as one integer that sorts by all three."""
    worker = _indices(rows["worker"], {name: index for index, name in enumerate(workers)})
    mode = _indices(rows["phase"], {name: index for index, name in enumerate(MODES)})
    keys: Integers = (worker << (_STEP_BITS + 2)) + (mode << _STEP_BITS) + rows["step"].to_numpy()
    return keys


def _indices(column: pa.ChunkedArray, index_of: Mapping[str, int]) -> Integers:
    """Map each text to its index; -1 if it has none."""
    encoded = column.combine_chunks().dictionary_encode()
    mapped = np.array([index_of.get(text, -1) for text in encoded.dictionary.to_pylist()], np.int64)
    return mapped[encoded.indices.to_numpy()] if len(mapped) else np.zeros(0, np.int64)


def _is_last(keys: Integers) -> npt.NDArray[np.bool_]:
    """Return whether a key is the last of equal keys; if a step was recorded twice, the later row is used."""
    return np.append(keys[1:] != keys[:-1], True)[: len(keys)]


def _is_of_mode(timeline: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(timeline["phase"], pa.array(MODES))
