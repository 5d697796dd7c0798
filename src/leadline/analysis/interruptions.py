"""Interruptions of a run: between an end and a resumption, and long gaps between steps."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from leadline.records.documents import RunStatus
from leadline.records.names import JOB_ENDED

_MIN_NS: Final = 10_000_000_000
_MIN_STEPS: Final = 20
"""The minimum duration of a pause, in median steps."""


def interruptions(status: RunStatus, steps: pa.Table) -> list[tuple[int, int]]:
    """Return start and end of each interruption, ns since the epoch, in order.

    Args:
        status: The run's status document, with its transitions.
        steps: As returned by ``Digest.steps``.
    """
    return sorted({*_between_ends(status), *_pauses(steps)})


def _between_ends(status: RunStatus) -> list[tuple[int, int]]:
    """Return the intervals from an end of the run to its resumption."""
    intervals, ended = [], None
    for transition in status.transitions:
        if transition.status in JOB_ENDED:
            ended = ended or transition.time_ns
        elif ended is not None:
            intervals.append((ended, transition.time_ns))
            ended = None
    return intervals


def _pauses(steps: pa.Table) -> list[tuple[int, int]]:
    """Return the intervals in which no worker was in a step of any mode."""
    if steps.num_rows < 2:
        return []
    order = np.argsort(steps["start_ns"].to_numpy(), kind="stable")
    starts, ends = steps["start_ns"].to_numpy()[order], np.maximum.accumulate(steps["end_ns"].to_numpy()[order])
    median_ns = float(np.median(steps["duration_ns"].to_numpy() / np.maximum(steps["count"].to_numpy(), 1)))
    gaps = starts[1:] - ends[:-1]
    gap_indices = np.flatnonzero(gaps > max(_MIN_NS, _MIN_STEPS * median_ns))
    return [(int(ends[index]), int(starts[index + 1])) for index in gap_indices]
