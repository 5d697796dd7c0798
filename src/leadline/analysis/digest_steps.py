"""Step buckets of step times and phases."""

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
    """Steps of one worker and mode, or sums of consecutive steps, in ascending order.

    Units:
        Nanoseconds; sums are weighted by the number of steps that each row represents.
    """

    worker: str
    mode: str
    step: Integers
    """The first step of each row."""
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
        """Return all arrays, in order."""
        return tuple(getattr(self, name) for name in StepSums.__slots__[2:])

    def where(self, keep: npt.NDArray[Any]) -> StepSums:
        """Return selected rows."""
        return StepSums(self.worker, self.mode, *(column[keep] for column in self.columns()))

    def in_buckets(self, width: int) -> StepSums:
        """Sum the steps that start in the same bucket."""
        groups = Groups(self.step // width)
        longest = groups.first_at_max(self.longest_ns)
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
        """Return the sums as ``STEP_BUCKETS``."""
        texts = [pa.repeat(pa.scalar(text, pa.string()), len(self)) for text in (self.worker, self.mode)]
        numbers = list(self.columns()[:-1])
        numbers[1] = self.last_step + 1
        return pa.table([*texts, *numbers, *self.parts.T], schema=STEP_BUCKETS)


def sums_of(steps: StepTable) -> Iterator[StepSums]:
    """Yield steps as rows of one step each, by worker and mode."""
    if not len(steps):
        return
    keys = steps.worker * len(MODES) + steps.mode
    order = np.argsort(keys, kind="stable")
    unique_keys, starts = np.unique(keys[order], return_index=True)
    for key, rows in zip(unique_keys.tolist(), np.split(order, starts[1:]), strict=True):
        yield _sums(steps.where(rows), steps.workers[key // len(MODES)], MODES[key % len(MODES)])


def _sums(steps: StepTable, worker: str, mode: str) -> StepSums:
    weight, duration_ns = steps.weight, steps.duration_ns
    return StepSums(
        worker,
        mode,
        steps.step,
        steps.step,
        steps.start_ns,
        steps.start_ns + duration_ns,
        weight,
        duration_ns * weight,
        duration_ns,
        duration_ns,
        steps.step,
        steps.phases * weight[:, None],
    )


def joined_steps(parts: list[StepSums]) -> StepSums:
    """Concatenate sums of one worker and mode."""
    columns = zip(*(part.columns() for part in parts), strict=True)
    return StepSums(parts[0].worker, parts[0].mode, *(np.concatenate(column) for column in columns))


def distribution(durations_ns: Integers, weights: Integers, bins: int) -> dict[str, Any]:
    """Return statistics and a histogram of step times.

    Units:
        Seconds. Bins have equal widths, or equal ratios if the longest step takes ten times as long as the shortest.
    """
    order = np.argsort(durations_ns, kind="stable")
    seconds, ordered = durations_ns[order] / 1e9, weights[order]
    cumulative = np.cumsum(ordered)
    shortest, longest = float(seconds[0]), float(seconds[-1])
    if shortest > 0 and longest > 10 * shortest:
        edges = np.geomspace(shortest, longest, bins + 1)
    else:
        edges = np.linspace(shortest, longest if longest > shortest else shortest + 1e-9, bins + 1)
    indices = np.clip(np.searchsorted(edges, seconds, side="right") - 1, 0, bins - 1)
    percentiles = {
        name: float(seconds[np.searchsorted(cumulative, share * cumulative[-1])])
        for name, share in _PERCENTILES.items()
    }
    return {
        "count": int(cumulative[-1]),
        "mean": float(np.average(seconds, weights=ordered)),
        "min": shortest,
        **percentiles,
        "max": longest,
        "edges": edges.tolist(),
        "counts": np.bincount(indices, weights=ordered, minlength=bins).astype(int).tolist(),
    }


def overlapping(sums: StepSums, start_ns: int | None, end_ns: int | None) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that overlap an interval: they end after ``start_ns`` and start before ``end_ns``."""
    keep = np.ones(len(sums), bool)
    if start_ns is not None:
        keep &= (sums.end_ns > start_ns) | (sums.start_ns == start_ns)
    if end_ns is not None:
        keep &= sums.start_ns < end_ns
    return keep


def within(sums: StepSums, start_ns: int | None, end_ns: int | None) -> Floats:
    """Return the time of each part in an interval, ns ``(PARTS,)``; partially covered rows count proportionally."""
    start = -(1 << 62) if start_ns is None else start_ns
    end = 1 << 62 if end_ns is None else end_ns
    lengths = np.maximum(sums.end_ns - sums.start_ns, 1)
    inside = np.minimum(sums.end_ns, end) - np.maximum(sums.start_ns, start)
    result: Floats = np.clip(inside / lengths, 0.0, 1.0) @ sums.parts
    return result


def events_of(timeline: pa.Table) -> pa.Table:
    """Return the rows of a timeline that are neither steps nor their phases."""
    is_part = pc.is_in(timeline["name"], pa.array(["step", *PHASES]))
    is_of_mode = pc.is_in(timeline["phase"], pa.array(MODES))
    return timeline.filter(pc.invert(pc.and_(is_part, is_of_mode)))
