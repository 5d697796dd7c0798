"""The steps of a run with the times of their phases, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.reader.interval import place_of
from leadline.records.names import MODES, PHASES

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

WATCHING: Final = "watching"
"""What Leadline itself took of a step; the phases are told without it."""
OTHER: Final = "other"
PARTS: Final = (*PHASES, WATCHING, OTHER)
_OWN: Final = r'"own_ns": ?(?P<own>[0-9]+)'
_STEP_BITS: Final = 48


@dataclass(frozen=True, slots=True)
class StepTable:
    """Steps, ordered by worker, mode and number.

    Units:
        Nanoseconds; a step lasts from the end of the one before to its own.
    """

    workers: tuple[str, ...]
    worker: Integers
    """The place of each step's worker, ``(steps,)``."""
    mode: Integers
    """The place of its mode in ``records.names.MODES``."""
    step: Integers
    start_ns: Integers
    duration_ns: Integers
    weight: Integers
    """For how many steps each stands."""
    phases: Floats
    """``(steps, PARTS)``: the time of each phase; what lies within another is taken out of that one."""

    def __len__(self) -> int:
        return len(self.step)

    def only(self, *, mode: str | None = None, worker: str | None = None) -> StepTable:
        """Those of a mode or a worker."""
        keep = np.ones(len(self), bool)
        if mode is not None:
            keep &= self.mode == MODES.index(mode)
        if worker is not None:
            keep &= self.worker == (self.workers.index(worker) if worker in self.workers else -1)
        return self.where(keep)

    def where(self, keep: npt.NDArray[Any]) -> StepTable:
        """Some of them."""
        columns = (self.worker, self.mode, self.step, self.start_ns, self.duration_ns, self.weight, self.phases)
        return StepTable(self.workers, *(each[keep] for each in columns))

    def seconds(self) -> float:
        """How long they took in all, over all workers."""
        return float((self.duration_ns * self.weight).sum()) / 1e9

    def seconds_by_phase(self) -> dict[str, float]:
        """How long each phase took in all, over all workers; without those that never were."""
        sums = (self.phases * self.weight[:, None]).sum(axis=0) / 1e9
        return {name: float(each) for name, each in zip(PARTS, sums, strict=True) if each > 0}

    def count(self) -> int:
        """How many steps they stand for, over all workers."""
        return int(self.weight.sum())


def read_steps(timeline: pa.Table) -> StepTable:
    """The steps that a timeline tells of.

    Args:
        timeline: As ``Run.timeline`` gives it.
    """
    workers = tuple(sorted(pc.unique(timeline["worker"]).to_pylist()))
    heads = timeline.filter(pc.and_(pc.equal(timeline["name"], "step"), _is_of_mode(timeline)))
    keys = _keys(heads, workers)
    order = np.argsort(keys, kind="stable")
    keys, order = keys[order], order[_is_last(keys[order])]
    keys = np.unique(keys)
    args = [place_of(each)[1] for each in heads["args"].to_pylist()]
    columns = {name: heads[name].to_numpy()[order] for name in ("step", "start_ns", "duration_ns")}
    phases = _phases(timeline, workers, keys)
    phases[:, PARTS.index(WATCHING)] = _own_ns(heads)[order]
    phases[:, -1] = columns["duration_ns"] - phases[:, :-1].sum(axis=1)
    return StepTable(
        workers,
        keys >> (_STEP_BITS + 2),
        keys >> _STEP_BITS & 3,
        columns["step"],
        columns["start_ns"],
        columns["duration_ns"],
        np.array(args, np.int64)[order],
        np.maximum(phases, 0.0),
    )


def _own_ns(heads: pa.Table) -> Integers:
    """What watching took of each step, as its row says; 0 where it says nothing."""
    found = pc.struct_field(pc.extract_regex(heads["args"], _OWN), "own")
    told: Integers = pc.fill_null(found, "0").cast(pa.int64()).to_numpy()
    return told


def _phases(timeline: pa.Table, workers: tuple[str, ...], keys: Integers) -> Floats:
    """The time of each phase of each step; the last column is left free."""
    phases = np.zeros((len(keys), len(PARTS)))
    is_phase = pc.is_in(timeline["name"], pa.array(PHASES))
    rows = timeline.filter(pc.and_(is_phase, _is_of_mode(timeline)))
    if not rows.num_rows or not len(keys):
        return phases
    own = _keys(rows, workers)
    places = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
    is_known = keys[places] == own  # of steps that were not written there may be rows all the same
    taken = rows["duration_ns"].to_numpy().astype(np.float64)
    columns = _places(rows["name"], {name: index for index, name in enumerate(PARTS)})
    outer = {each: place_of(each)[0] for each in pc.unique(rows["args"]).to_pylist()}
    inside = {each: PARTS.index(name) for each, name in outer.items() if name in PHASES}
    np.add.at(phases, (places[is_known], columns[is_known]), taken[is_known])
    if inside:
        around = _places(rows["args"], inside)
        is_inside = is_known & (around >= 0)
        np.subtract.at(phases, (places[is_inside], around[is_inside]), taken[is_inside])
    return phases


def _keys(rows: pa.Table, workers: tuple[str, ...]) -> Integers:
    """Worker, mode and step as one number, so that they sort as one."""
    worker = _places(rows["worker"], {name: index for index, name in enumerate(workers)})
    mode = _places(rows["phase"], {name: index for index, name in enumerate(MODES)})
    found: Integers = (worker << (_STEP_BITS + 2)) + (mode << _STEP_BITS) + rows["step"].to_numpy()
    return found


def _places(column: pa.ChunkedArray, places: Mapping[str, int]) -> Integers:
    """For each text its place; -1 where it has none."""
    told = column.combine_chunks().dictionary_encode()
    words = np.array([places.get(each, -1) for each in told.dictionary.to_pylist()], np.int64)
    return words[told.indices.to_numpy()] if len(words) else np.zeros(0, np.int64)


def _is_last(keys: Integers) -> npt.NDArray[np.bool_]:
    """Whether a key is the last of those that are alike; of a step that was told twice the later row counts."""
    return np.append(keys[1:] != keys[:-1], True)[: len(keys)]


def _is_of_mode(timeline: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(timeline["phase"], pa.array(MODES))
