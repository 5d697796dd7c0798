"""When a run stood still: between an end and its resumption, and where no step ran for long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from leadline.records.names import JOB_ENDED

_LEAST_NS: Final = 10_000_000_000
_STEPS: Final = 20
"""A pause is as long as so many steps, at least."""


def interruptions(status: Mapping[str, Any], steps: pa.Table) -> list[tuple[int, int]]:
    """Start and end of each, ns since the epoch, in order.

    Args:
        status: The run's status document, with its transitions.
        steps: As ``Digest.steps`` gives it.
    """
    return sorted({*_between_ends(status), *_pauses(steps)})


def _between_ends(status: Mapping[str, Any]) -> list[tuple[int, int]]:
    """From an end to the start that came after it all the same."""
    found, ended = [], None
    for each in status.get("transitions") or ():
        if each["status"] in JOB_ENDED:
            ended = ended or int(each["time_ns"])
        elif ended is not None:
            found.append((ended, int(each["time_ns"])))
            ended = None
    return found


def _pauses(steps: pa.Table) -> list[tuple[int, int]]:
    """Where no worker was in a step of any mode."""
    if steps.num_rows < 2:
        return []
    order = np.argsort(steps["start_ns"].to_numpy(), kind="stable")
    starts, ends = steps["start_ns"].to_numpy()[order], np.maximum.accumulate(steps["end_ns"].to_numpy()[order])
    usual = float(np.median(steps["duration_ns"].to_numpy() / np.maximum(steps["count"].to_numpy(), 1)))
    gaps = starts[1:] - ends[:-1]
    places = np.flatnonzero(gaps > max(_LEAST_NS, _STEPS * usual))
    return [(int(ends[at]), int(starts[at + 1])) for at in places]
