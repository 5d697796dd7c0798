"""The rule input_bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import msgspec

from leadline.analysis.loader_advice import MOST_LIKELY, OR_RESULTS, WAIT, WAITING_SHARE, loader_advice
from leadline.records.formatting import significant
from leadline.records.names import COMPUTES_LATER, PHASES
from leadline.rules import Clear, Needs, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.messages import fired
from leadline.rules.system.step_times import Step, StepTimes

_MIN_WAIT_NS: Final = 2_000_000
"""Mean waits per step below this are ignored."""
_TIMED_STEPS: Final = 4
"""The latest steps with the times of the thread: some two are taken per second."""
_DELAYED: Final = 0.3
"""The machine is overloaded, as for the bottleneck of the run, where the thread waits for a processor for this share of
the time …"""
_DELAYED_WHILE_READY: Final = 0.5
"""… and of that in which it wants one."""


@dataclass(slots=True)
class _LatestSteps:
    times: StepTimes = field(default_factory=StepTimes)
    latest: dict[str, deque[Step]] = field(default_factory=dict)
    timed: dict[str, deque[Step]] = field(default_factory=dict)
    """The latest steps at whose end the times of the thread were taken."""

    def is_overloaded(self, worker: str) -> bool:
        """Return whether a worker's thread waited for a processor most of the time; not where that is unknown."""
        wall_ns, ready_ns, delay_ns = self._times(worker)
        return delay_ns > 0 and delay_ns >= max(_DELAYED * wall_ns, _DELAYED_WHILE_READY * ready_ns)

    def served_share(self, worker: str) -> float:
        """Return the share of the time in which a worker's thread wanted a processor that it had one; 1: not known."""
        _, ready_ns, delay_ns = self._times(worker)
        return 1 - min(delay_ns / ready_ns, 1.0) if delay_ns > 0 and ready_ns > 0 else 1.0

    def _times(self, worker: str) -> tuple[int, int, int]:
        """Return the time of the latest steps, that in which the thread wanted a processor, and waited for one."""
        steps = self.timed.get(worker)
        if not steps:
            return 0, 0, 0
        first, last = steps[0], steps[-1]
        return last.end_ns - first.end_ns, last.ready_ns - first.ready_ns, last.run_delay_ns - first.run_delay_ns


class InputBound(Rule, frozen=True, kw_only=True):
    """Fires when the training waits for its next batch for a large part of the time.

    Why it matters:
        A training that waits for data runs at the speed of its loader, whatever the accelerator; more workers or
        cheaper preprocessing are the cheapest speed-up.
    How it decides:
        Fires if, over the last ``window`` training steps of a worker, ``sum of the waits for data / sum of the step
        times > share``, without the step of the longest wait (workers restart at each epoch), and the mean wait per
        step is at least 2 ms. The first step is never counted. Undecided if no step waits for a loader, but the time
        before the model is called takes such a share and 2 ms; the reason says whether the thread waits in it: a
        generator of the script that reads files, or asks another process, most likely (with JAX, TensorFlow and MXNet
        perhaps for what the last step computes). Undecided, too, where the machine is overloaded: the training's thread
        waited for a processor for at least 30 % of the time, and for half of that in which it wanted one, as the
        processes of its loader may have done; a thread that loads its data itself waits alike in all that it does, and
        its waits count as far as it had a processor.
    Not a number:
        Only times are evaluated.
    Blind spots:
        Waiting is the time that the loop spends in ``next()`` of its loader (of PyTorch, MXNet, or of a
        ``tf.data.Dataset`` outside of functions): data that the loop decodes itself, or moves to the device, count as
        ``host`` or ``other``. If ranks wait for each other, only the
        loader of the slowest one matters: see ``straggler``. Where the training's thread waits for a processor, the
        steps are longer and the share is smaller.
    Args:
        share: Share of the step time, > 0 and < 1.
        window: Training steps, >= 2.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "advice"
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
        return Needs(scan_seconds=1.0, phases=(*PHASES, "step"), facts=True)

    def remember(self, memory: Any, window: Window) -> _LatestSteps:
        known: _LatestSteps = memory or _LatestSteps()
        for step in known.times.add(window.spans()):
            if step.worker in known.latest:
                known.latest[step.worker].append(step)
            else:
                known.latest[step.worker] = deque(maxlen=self.window)
            if step.run_delay_ns >= 0:
                known.timed.setdefault(step.worker, deque(maxlen=_TIMED_STEPS)).append(step)
        return known

    def evaluate(self, window: Window) -> Verdict:
        full = {worker: steps for worker, steps in window.memory.latest.items() if len(steps) == self.window}
        if not full:
            return Undecided(f"fewer than {self.window + 1:,} training steps were timed")
        facts_of = window.facts
        waits = {worker: _Wait.of(steps) for worker, steps in sorted(full.items())}
        known: _LatestSteps = window.memory
        loads_itself = {worker for worker in waits if facts_of.get(worker, {}).get("dataloader_workers") == 0}
        served = {worker: known.served_share(worker) if worker in loads_itself else 1.0 for worker in waits}
        slow = [
            worker
            for worker, wait in waits.items()
            if wait.share > self.share and served[worker] * wait.mean_ns >= _MIN_WAIT_NS
        ]
        if not slow:
            return self._without_waits(full, facts_of)
        reliable = [worker for worker in slow if worker in loads_itself or not known.is_overloaded(worker)]
        if not reliable:
            return Undecided("the machine is overloaded, and waits for data may be waits for a processor")
        slow = reliable
        worker = max(slow, key=lambda worker: (waits[worker].share, worker))
        share, wait_ns, step_ns = waits[worker]
        facts = facts_of.get(worker, {})
        return fired(
            f"{100 * share:.0f} % of the time of steps {full[worker][0].step:,} to {full[worker][-1].step:,}, the "
            f"longest wait aside, is waiting for data: {significant(wait_ns / 1e6)} ms of "
            f"{significant(step_ns / 1e6)} ms per step",
            *slow,
            advice=loader_advice(facts.get("dataloader_workers"), facts.get("cores")),
            evidence={"wait_share": share, "wait_ms": wait_ns / 1e6, "step_ms": step_ns / 1e6, "share": self.share},
            noun="worker",
            worker=worker,
        )

    def _without_waits(self, full: Mapping[str, Sequence[Step]], facts: Mapping[str, Mapping[str, Any]]) -> Verdict:
        """Return the verdict if no worker waits for its loader."""
        steps = [step for latest in full.values() for step in latest]
        if any(step.phase_ns("data") for step in steps):
            return Clear()
        whole_ns = max(sum(step.duration_ns for step in steps), 1)
        if sum(step.phase_ns("compute") for step in steps) > self.share * whole_ns:
            return Undecided(
                "the training function takes its batches itself, so that its wait for them is not timed; leadline "
                "profile --detailed shows it as IteratorGetNext"
            )
        host_ns = sum(step.phase_ns("host") for step in steps)
        share = host_ns / whole_ns
        if share <= self.share or host_ns < _MIN_WAIT_NS * len(steps):
            return Clear()
        if _waits_before_the_model(steps):
            is_late = any(facts.get(worker, {}).get(COMPUTES_LATER) for worker in full)
            return Undecided(
                f"no data loader was seen, and {100 * share:.0f} % of the step time is {WAIT}: "
                f"{OR_RESULTS if is_late else MOST_LIKELY}"
            )
        return Undecided(
            f"no data loader was seen, and {100 * share:.0f} % of the step time precedes the call of the model: data "
            "that the script loads itself, or other host work"
        )


def _waits_before_the_model(steps: Iterable[Step]) -> bool:
    """Return whether the thread waits in what precedes the call of the model, by the steps whose times were taken."""
    known = [step for step in steps if step.host_ready_ns >= 0 and step.phase_ns("host")]
    ready_ns, host_ns = sum(step.host_ready_ns for step in known), sum(step.phase_ns("host") for step in known)
    return ready_ns < WAITING_SHARE * host_ns


class _Wait(NamedTuple):
    """The waits of some steps, without the step of the longest wait."""

    share: float
    mean_ns: float
    step_ns: float
    """The mean time of these steps."""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> _Wait:
        kept = sorted(steps, key=lambda step: step.phase_ns("data"))[:-1]
        waited, whole = (
            sum(times) for times in zip(*((step.phase_ns("data"), step.duration_ns) for step in kept), strict=True)
        )
        return cls(waited / whole if whole > 0 else 0.0, waited / len(kept), whole / len(kept))
