"""Overload of a machine: the training's thread is ready to run, but waits for a processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from leadline.analysis.steps import StepTable
from leadline.analysis.time_document import OverloadDocument
from leadline.records.names import OTHER, OVERHEAD

_OVERLOAD_SHARE: Final = 0.3
_MIN_STEPS: Final = 5
_SEVERE_SHARE: Final = 0.5
"""A thread that waits for a processor for longer than it uses one: what its phases take is the machine's doing."""
_LEAST_SECONDS: Final = 1.0
"""In shorter trainings the processes that start beside them take the processors."""
_TRY: Final = (
    "fewer processes on this machine, or fewer threads than cores: OMP_NUM_THREADS, the framework's own, num_workers"
)


@dataclass(frozen=True, slots=True)
class Overload:
    """A training whose thread waits for a processor for a large part of the time."""

    share: float
    """The share of the time between the end of the first step and the end of the last."""
    ready_share: float
    """The share of the time in which the thread was running or ready to."""
    loads_most: bool = False
    """Whether loading data took more of the training steps than any other phase."""

    @property
    def is_severe(self) -> bool:
        """Whether the thread waited for a processor longer than it used one: its times say nothing of the training."""
        return self.ready_share >= _SEVERE_SHARE

    @property
    def message(self) -> str:
        percent = f"{100 * self.share:.0f} % of the time after the first step"
        waited = f"the machine was overloaded: the training's thread waited for a CPU in {percent}"
        if not self.is_severe:
            return waited
        undecided = ", and whether the training waits for its data is undecided" if self.loads_most else ""
        return f"{waited}; timings are not reliable{undecided}"

    def to_dict(self) -> OverloadDocument:
        """Return plain JSON values."""
        return {"share": self.share, "message": self.message, "try": _TRY}

    def summary(self) -> dict[str, str]:
        """Return the text."""
        return {"message": self.message, "try": _TRY}


def find_overload(steps: StepTable) -> Overload | None:
    """Return the overload during the training steps after the first; None: there was none, or nothing was measured.

    The thread must have waited for a processor for at least 30 % of the time.
    """
    later = steps.only(mode="train").after_first()
    delay = later.run_delay()
    if delay is None or delay.share < _OVERLOAD_SHARE:
        return None
    if later.count() < _MIN_STEPS or later.seconds() < _LEAST_SECONDS:
        return None
    seconds = later.seconds_by_phase()
    return Overload(delay.share, delay.ready_share, max(seconds, key=lambda name: seconds[name]) == "data")


def own_shares(
    seconds: Mapping[str, float], ready: Mapping[str, float], overload: Overload
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the share of each phase that is not a wait for a processor, and that in which the thread used one.

    A thread waits for a processor while it wants to compute: that time is spread over the time in which it was ready
    to run, and what exceeds that of the known phases lies between them. Leadline's overhead keeps its share of the
    rest, since its budget is a share of the time.

    Args:
        seconds: The time of each phase.
        ready: The share of it in which the thread was ready to run, for the phases where it is known.
    """
    delays = {name: seconds[name] * share * overload.ready_share for name, share in ready.items() if name in seconds}
    between = seconds.get(OTHER, 0.0)
    delays[OTHER] = min(max(overload.share * sum(seconds.values()) - sum(delays.values()), 0.0), between)
    delays[OVERHEAD] = overload.share * seconds.get(OVERHEAD, 0.0)
    own = {name: 1 - delays.get(name, 0.0) / total if total > 0 else 0.0 for name, total in seconds.items()}
    used = {name: share * (1 - overload.ready_share) for name, share in ready.items() if name in seconds}
    return own, {name: min(share / own[name], 1.0) for name, share in used.items() if own[name] > 0}
