"""The state that the parts of a session share: run directory, worker, current step, notes and events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from leadline.instrumentation.guard import Facts
from leadline.instrumentation.resumption import Resumption
from leadline.instrumentation.timeline.step_clock import StepClock
from leadline.records.documents import MAX_TRAININGS
from leadline.records.event import TRAINING, Event
from leadline.records.json_object import JsonObject

if TYPE_CHECKING:
    from leadline.store.writer import Writer


class StepContext:
    """The run, the worker and the current step of a training process.

    Args:
        run: The run directory.
        name_worker: Returns the worker's name as far as it is known.
        continues: Returns whether an optimizer goes on with the training of the one before it.
        takes_over: Returns whether the latest step of an optimizer shows that the owner has ended its own.

    Attributes:
        clock: Counts the steps.
        resumption: What this process continues, if the run is resumed.
        notes: Lines about what is not captured, each once.
        facts: What is found from the values of the training; each fails alone.
        trainings: The first train step of each training that this process has begun, of the first ten thousand.
        writer: The worker's writer; None until the first step.
    """

    __slots__ = (
        "_begun",
        "_continues",
        "_name_worker",
        "_worker",
        "clock",
        "facts",
        "notes",
        "resumption",
        "run",
        "trainings",
        "writer",
    )

    def __init__(
        self,
        run: str,
        name_worker: Callable[[], str],
        *,
        continues: Callable[[object], bool] = lambda optimizer: False,
        takes_over: Callable[[object], bool] = lambda optimizer: False,
    ) -> None:
        self.run = run
        self.resumption = Resumption(run)
        self.clock = StepClock(self._on_owner_change, self._on_training, takes_over)
        self.trainings: list[int] = []
        self._begun = 0
        self._continues = continues
        self.notes: list[str] = []
        self.writer: Writer | None = None
        self._name_worker = name_worker
        self._worker = ""
        self.facts = Facts(self.note, lambda: self.train_step)

    @property
    def worker(self) -> str:
        """The worker's name; it may change until ``fix_worker`` is called."""
        return self._worker or self._name_worker()

    def fix_worker(self, name: str | None = None) -> str:
        """Name the worker for good; return the name.

        Args:
            name: The name of the worker that it continues; None: it continues none.
        """
        self._worker = name or self._name_worker()
        return self._worker

    def place(self, steps: int | None = None) -> bool:
        """In a resumed run, continue the count of the steps, once; return whether that happened now.

        Args:
            steps: The number of train steps that the optimizer has counted before this one; None: it counts none.
        """
        resumption = self.resumption
        is_placed = resumption.number == 0 or resumption.position is not None
        if not is_placed:
            position, note = resumption.place(steps)
            self.clock.continue_from(position.global_step, position.finished)
            if note:
                self.note(note)
        if steps is not None and resumption.counted_before is None:
            resumption.counted_before = steps - self.clock.train_step
        return not is_placed

    @property
    def step(self) -> int:
        """The current global step."""
        return self.clock.step

    @property
    def train_step(self) -> int:
        """The current train step, or the next one; in a process that has not trained, the current step."""
        return self.clock.finished.get("train", self.clock.step)

    def note(self, line: str) -> None:
        """Keep a line about something that is not captured, once."""
        if line not in self.notes:
            self.notes.append(line)

    def put_event(self, event: Event) -> None:
        """Write an event, if the writer is open."""
        if self.writer is not None:
            self.writer.put_event(event)

    def record_event(self, name: str, args: JsonObject) -> None:
        """Write an event of the current step, if the writer is open."""
        if self.writer is not None:
            self.writer.put_event(Event(name, self.clock.step, time.time_ns(), args=args))

    def _on_owner_change(self, owner: object) -> None:
        """Note that a new owner counts its own steps from this one; one that returns goes on with its own count."""
        self.resumption.counted_before = None if self.clock.has_owned(owner) else -self.clock.train_step
        self.record_event("clock_owner", {"optimizer": type(owner).__name__})

    def _on_training(self, owner: object) -> None:
        if not self._continues(owner):
            self.begin_training(owner)

    def begin_training(self, owner: object) -> None:
        """Begin a training with the current step.

        Args:
            owner: Its optimizer, or what takes the place of one.
        """
        self._begun += 1
        if self._begun <= MAX_TRAININGS:
            self.trainings.append(self.clock.train_step)
        self.record_event(TRAINING, _described(owner, self._begun, self.clock.train_step))


def _described(owner: object, number: int, train_step: int) -> dict[str, str | int]:
    return {"owner": type(owner).__name__, "number": number, "train_step": train_step}
