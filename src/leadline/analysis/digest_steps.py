"""Steps and their phases, as buckets of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.buckets import Groups
from leadline.analysis.steps import PARTS, StepTable
from leadline.records.names import MODES, PHASES

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

STEP_BUCKETS: Final = pa.schema(
    [
        ("worker", pa.string()),
        ("mode", pa.string()),
        ("step", pa.int64()),
        ("end_step", pa.int64()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("count", pa.int64()),
        ("duration_ns", pa.int64()),
        ("longest_ns", pa.int64()),
        ("shortest_ns", pa.int64()),
        ("longest_step", pa.int64()),
        *((f"{part}_ns", pa.float64()) for part in PARTS),
    ]
)
_PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class StepSums:
    """Steps of one worker and mode, or sums of neighbouring ones, ascending.

    Units:
        Nanoseconds; what is summed counts each step for as many as it stands for.
    """

    worker: str
    mode: str
    step: Integers
    """The first of each row."""
    last_step: Integers
    start_ns: Integers
    end_ns: Integers
    count: Integers
    duration_ns: Integers
    longest_ns: Integers
    shortest_ns: Integers
    longest_step: Integers
    parts: Floats
    """``(rows, PARTS)``."""

    def __len__(self) -> int:
        return len(self.step)

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """All arrays, in order."""
        return tuple(getattr(self, name) for name in StepSums.__slots__[2:])

    def where(self, keep: npt.NDArray[Any]) -> StepSums:
        """Some of them."""
        return StepSums(self.worker, self.mode, *(each[keep] for each in self.columns()))

    def in_buckets(self, width: int) -> StepSums:
        """Neighbours that begin in one bucket of the grid put together."""
        groups = Groups(self.step // width)
        longest = groups.first_where_most(self.longest_ns)
        return StepSums(
            self.worker,
            self.mode,
            groups.min(self.step),
            groups.max(self.last_step),
            groups.min(self.start_ns),
            groups.max(self.end_ns),
            groups.sum(self.count),
            groups.sum(self.duration_ns),
            self.longest_ns[longest],
            groups.min(self.shortest_ns),
            self.longest_step[longest],
            groups.sum(self.parts),
        )

    def table(self) -> pa.Table:
        """As ``STEP_BUCKETS``."""
        texts = [pa.repeat(pa.scalar(each, pa.string()), len(self)) for each in (self.worker, self.mode)]
        numbers = list(self.columns()[:-1])
        numbers[1] = self.last_step + 1
        return pa.table([*texts, *numbers, *self.parts.T], schema=STEP_BUCKETS)


def sums_of(steps: StepTable) -> Iterator[StepSums]:
    """Steps as rows of one each, worker by worker and mode by mode."""
    if not len(steps):
        return
    keys = steps.worker * len(MODES) + steps.mode
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    for key, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield _sums(steps.where(rows), steps.workers[key // len(MODES)], MODES[key % len(MODES)])


def _sums(steps: StepTable, worker: str, mode: str) -> StepSums:
    weight, took = steps.weight, steps.duration_ns
    return StepSums(
        worker,
        mode,
        steps.step,
        steps.step,
        steps.start_ns,
        steps.start_ns + took,
        weight,
        took * weight,
        took,
        took,
        steps.step,
        steps.phases * weight[:, None],
    )


def joined_steps(parts: list[StepSums]) -> StepSums:
    """Several of one worker and mode, one after the other."""
    columns = zip(*(each.columns() for each in parts), strict=True)
    return StepSums(parts[0].worker, parts[0].mode, *(np.concatenate(each) for each in columns))


def distribution(durations_ns: Integers, weights: Integers, bins: int) -> dict[str, Any]:
    """How long steps took.

    Units:
        Seconds. The bins are equally wide, or by equal factors where the longest takes ten times the shortest.
    """
    order = np.argsort(durations_ns, kind="stable")
    seconds, ordered = durations_ns[order] / 1e9, weights[order]
    cumulative = np.cumsum(ordered)
    least, most = float(seconds[0]), float(seconds[-1])
    if least > 0 and most > 10 * least:
        edges = np.geomspace(least, most, bins + 1)
    else:
        edges = np.linspace(least, most if most > least else least + 1e-9, bins + 1)
    places = np.clip(np.searchsorted(edges, seconds, side="right") - 1, 0, bins - 1)
    found = {
        name: float(seconds[np.searchsorted(cumulative, share * cumulative[-1])])
        for name, share in _PERCENTILES.items()
    }
    return {
        "count": int(cumulative[-1]),
        "mean": float(np.average(seconds, weights=ordered)),
        "min": least,
        **found,
        "max": most,
        "edges": edges.tolist(),
        "counts": np.bincount(places, weights=ordered, minlength=bins).astype(int).tolist(),
    }


def overlapping(sums: StepSums, start_ns: int | None, end_ns: int | None) -> npt.NDArray[np.bool_]:
    """Which were under way in an interval: they end behind ``start_ns`` and begin before ``end_ns``."""
    keep = np.ones(len(sums), bool)
    if start_ns is not None:
        keep &= (sums.end_ns > start_ns) | (sums.start_ns == start_ns)
    if end_ns is not None:
        keep &= sums.start_ns < end_ns
    return keep


def within(sums: StepSums, start_ns: int | None, end_ns: int | None) -> Floats:
    """How much time each part took in an interval, ns ``(PARTS,)``: of a row that lies half in it, half."""
    start = -(1 << 62) if start_ns is None else start_ns
    end = 1 << 62 if end_ns is None else end_ns
    lengths = np.maximum(sums.end_ns - sums.start_ns, 1)
    inside = np.minimum(sums.end_ns, end) - np.maximum(sums.start_ns, start)
    found: Floats = np.clip(inside / lengths, 0.0, 1.0) @ sums.parts
    return found


def events_of(timeline: pa.Table) -> pa.Table:
    """The rows of a timeline that are neither steps nor their phases."""
    is_part = pc.is_in(timeline["name"], pa.array(["step", *PHASES]))
    is_of_mode = pc.is_in(timeline["phase"], pa.array(MODES))
    return timeline.filter(pc.invert(pc.and_(is_part, is_of_mode)))
