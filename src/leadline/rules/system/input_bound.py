"""The rule input_bound."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.records.names import PHASES
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.step_times import Step, StepTimes

if TYPE_CHECKING:
    from leadline.reader.window import Window

_LEAST_NS: Final = 2_000_000
"""What a step must wait at least for it to matter."""


@dataclass(slots=True)
class _Workers:
    times: StepTimes = field(default_factory=StepTimes)
    latest: dict[str, deque[Step]] = field(default_factory=dict)


class InputBound(Rule, frozen=True, kw_only=True):
    """Fires when the training waits for its next batch for a large part of the time.

    Why it matters:
        A training that waits for data runs at the pace of its loader, whatever accelerator stands beside it; more
        workers or cheaper preprocessing are the cheapest speed-up there is.
    How it decides:
        Over the last ``window`` training steps of a worker ``sum of the waits for data / sum of the step times >
        share``, the longest wait left out (workers start anew with each epoch), and a step waits 2 ms or more on
        average. The first step is never counted.
    Not a number:
        Looks at no numbers but times.
    Blind spots:
        Waiting is what the loop spends in ``next()`` of its loader: data that the loop reads by itself, or moves to
        the device, are ``other``, ``copy`` or ``forward``. Of ranks that wait for each other only the slowest one's
        loader matters: ``straggler``.
    Args:
        share: Share of the step time, > 0 and < 1.
        window: Training steps, >= 2.
    Source:
        Ours.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "low_gpu_utilization",
        "cpu_bottleneck",
        "io_bottleneck",
        "batch_size",
        "dataloader",
        "hardware_utilization",
    )

    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.3
    window: Annotated[int, msgspec.Meta(ge=2)] = 50

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0, phases=(*PHASES, "step"))

    def remember(self, memory: Any, window: Window) -> _Workers:
        workers: _Workers = memory or _Workers()
        for each in workers.times.add(window.spans()):
            if each.worker in workers.latest:
                workers.latest[each.worker].append(each)
            else:
                workers.latest[each.worker] = deque(maxlen=self.window)
        return workers

    def evaluate(self, window: Window) -> Verdict:
        full = {worker: each for worker, each in window.memory.latest.items() if len(each) == self.window}
        waits = {worker: self._wait(list(each)) for worker, each in sorted(full.items())}
        slow = [worker for worker, (share, wait_ns) in waits.items() if share > self.share and wait_ns >= _LEAST_NS]
        if not slow:
            return Clear() if full else Undecided(f"fewer than {self.window + 1:,} training steps were timed")
        worker = max(slow, key=lambda each: (waits[each][0], each))
        share, wait_ns = waits[worker]
        step_ns = sum(each.duration_ns for each in full[worker]) / self.window
        return Fired(
            f"{100 * share:.0f} % of the last {self.window:,} steps is waiting for data: {wait_ns / 1e6:.3g} ms of "
            f"{step_ns / 1e6:.3g} ms a step{and_more(len(slow) - 1, 'worker')}",
            tensors=tuple(slow),
            evidence={"wait_share": share, "wait_ms": wait_ns / 1e6, "step_ms": step_ns / 1e6, "share": self.share},
            suggestion="more num_workers (or any: 0 loads in the training itself), persistent_workers, cheaper or "
            "cached preprocessing; usually decoding and augmenting take longer than the step",
            worker=worker,
        )

    def _wait(self, steps: list[Step]) -> tuple[float, float]:
        """The share of the step time that is waiting, and nanoseconds a step; the longest wait left out."""
        waits = sorted(each.phase_ns("data") for each in steps)
        waited = sum(waits[:-1])
        whole = sum(each.duration_ns for each in steps) - waits[-1]
        return (waited / whole if whole > 0 else 0.0), waited / (len(steps) - 1)
