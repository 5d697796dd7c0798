"""The starts of a run after its first, and where each of them continues."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from leadline.records.decoding import Document


@dataclass(frozen=True, slots=True)
class Incarnation(Document):
    """A start of a run after its first: how the one before it ended."""

    number: int = 0
    """1 for the second start; the first one, 0, has no record."""
    started_ns: int = 0
    ended_ns: int | None = None
    """When the one before ended; None: unknown."""
    status: str = "Interrupted"
    """How the one before ended: ``Interrupted``, ``Failed`` …"""
    exit_status: int | None = None
    steps: int = 0
    """The number of train steps that were recorded until then."""
    restarts: int = 0
    """Of workers that torchrun has started again within a job, how often; 0: the job itself was started again."""


@dataclass(frozen=True, slots=True)
class ValueChange(Document):
    """A scalar on both sides of an interruption."""

    name: str = ""
    before: float = 0.0
    after: float = 0.0
    last_step: int = 0
    """The last train step of those before."""
    first_step: int = 0
    """The first train step of those after."""
    readings: int = 1
    """At most so many readings on each side, of which this is the median."""


@dataclass(frozen=True, slots=True)
class Interruption(Document):
    """The end of a run that was resumed later, and where it was resumed."""

    status: str = "Interrupted"
    """How it had ended."""
    exit_status: int | None = None
    ended_ns: int | None = None
    """None: unknown."""
    resumed_ns: int = 0
    steps: int = 0
    """The number of train steps that had been recorded."""
    resumed_step: int | None = None
    """The first train step after it; None: not known yet."""
    has_new_state: bool = False
    """Whether the optimizer of a worker had counted no step when it continued."""
    changes: tuple[ValueChange, ...] = ()
    """Learning rates and losses that were far from what they had been."""
    repeated_step: int | None = None
    """The train step of the beginning of the run whose batch came again at ``resumed_step``; None: none is known."""


@dataclass(frozen=True, slots=True)
class StepPosition(Document):
    """The moment before a train step: its global step, and the finished steps of the other modes."""

    step: int = 0
    """The train step."""
    global_step: int = 0
    others: dict[str, int] = field(default_factory=dict)
    """The number of finished steps of each other mode."""

    @property
    def finished(self) -> dict[str, int]:
        """The number of finished steps of each mode."""
        return ({"train": self.step} if self.step else {}) | self.others


@dataclass(frozen=True, slots=True)
class WorkerStart(Document):
    """Where an incarnation begins in the streams of a worker.

    What is before it in a stream, and at or after ``step``, was repeated and is replaced.
    """

    number: int = 0
    """The incarnation."""
    step: int = 0
    """The first global step."""
    steps: dict[str, int] = field(default_factory=dict)
    """The number of steps of each mode that stay."""
    series: int = 0
    """The sequence number of the first batch of its series."""
    timeline: int = 0
    """The sequence number of the first batch of its timeline."""
    tensors: int = 1
    """The ordinal of the first segment of raw tensors."""
    has_new_state: bool = False
    """Whether the optimizer had counted no step when it began."""


@dataclass(frozen=True, slots=True)
class WorkerStreams(Document):
    """The ends of the streams of a worker, which an incarnation continues."""

    series: int = 0
    """The sequence number of the next batch of its series."""
    timeline: int = 0
    tensors: int = 1
    """The ordinal of the next segment of raw tensors."""
    steps: int = 0
    """The number of recorded train steps."""
    starts: tuple[WorkerStart, ...] = ()


@dataclass(frozen=True, slots=True)
class Incarnations(Document):
    """``incarnations.json``: the starts of a resumed run, and where the last one continues."""

    starts: tuple[Incarnation, ...] = ()
    resume_step: int | None = None
    """The train step at which the user says that the last one continues."""
    counted_before: int = 0
    """The number of steps that the optimizer had counted before train step 0: it continued another training.

    Negative: it began to count at a later train step.
    """
    positions: tuple[StepPosition, ...] = ()
    """In ascending order; each holds until the next one, and the last one is that after everything recorded."""
    workers: dict[str, WorkerStreams] = field(default_factory=dict)
    requests: tuple[str, ...] = ()
    """The ids of the requests that were made of earlier incarnations and are obeyed no more."""
    samples: dict[str, int] = field(default_factory=dict)
    """The sequence number of the next batch of system metrics of each node."""

    @property
    def number(self) -> int:
        """The number of the last incarnation; 0 for a run that was started once."""
        return len(self.starts)

    @property
    def job(self) -> int:
        """The number of the incarnation that the job and its agents belong to; workers may have begun later ones."""
        return max((start.number for start in self.starts if not start.restarts), default=0)

    @property
    def restarts(self) -> int:
        """How often torchrun has started the workers of the job again."""
        return self.starts[-1].restarts if self.starts else 0

    @property
    def since_ns(self) -> int:
        """When the last incarnation was started; 0 for a run that was started once."""
        return self.starts[-1].started_ns if self.starts else 0

    @property
    def end(self) -> StepPosition:
        """The position after everything that was recorded before the last incarnation."""
        return self.positions[-1] if self.positions else StepPosition()

    def position(self, step: int) -> StepPosition:
        """Return the position before a train step: as it was recorded, or counted from the last one recorded."""
        index = bisect_right(self.positions, step, key=lambda known: known.step)
        before = self.positions[max(index - 1, 0)] if self.positions else StepPosition()
        return StepPosition(step, before.global_step + step - before.step, before.others)
