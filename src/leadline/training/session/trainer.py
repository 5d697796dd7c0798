"""What a trainer tells of itself through a callback of ``leadline.integrations``: plan, checkpoints, and loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from leadline.frameworks.adapter import StepCallbacks
from leadline.instrumentation.timeline.step_clock import StepClock
from leadline.records.documents import MAX_CHECKPOINTS, SavedCheckpoint
from leadline.records.names import REMAINING_STEPS


class TrainerFacts:
    """The facts that only the trainer knows, and how its loop is asked to end.

    Args:
        clock: Of the steps of this process.
        recorder: Returns what the plan is recorded by.

    Attributes:
        planned_steps: The train steps that there will be when the trainer has carried out its plan; None: unknown.
        checkpoints: The latest ``MAX_CHECKPOINTS``.
        hyperparameters: As the script has told them.
    """

    def __init__(self, clock: StepClock, recorder: Callable[[], StepCallbacks]) -> None:
        self._clock, self._recorder = clock, recorder
        self._loop: tuple[Callable[[], object], FrameType] | None = None
        self.planned_steps: int | None = None
        self.checkpoints: tuple[SavedCheckpoint, ...] = ()
        self.hyperparameters: dict[str, Any] = {}

    def plan(self, steps: int) -> None:
        """Note how many train steps the trainer will make from now on."""
        self.planned_steps = self._clock.train_step + steps
        recorder = self._recorder()
        if recorder.captures_checks():
            recorder.record_checks({REMAINING_STEPS: float(steps)})

    def steps(self) -> int:
        """Return the train steps that have ended."""
        return self._clock.train_step

    def note_checkpoint(self, path: str) -> None:
        """Note a checkpoint of the weights as they are after the latest train step."""
        saved = SavedCheckpoint(self._clock.train_step - 1, path)
        others = (known for known in self.checkpoints if known.path != path)
        self.checkpoints = (*others, saved)[-MAX_CHECKPOINTS:]

    def note_hyperparameters(self, values: Mapping[str, Any]) -> None:
        """Note those that are numbers, texts or truth values."""
        kept = {str(name): value for name, value in values.items() if isinstance(value, (bool, int, float, str))}
        self.hyperparameters |= kept

    def begin_loop(self, end: Callable[[], object], library: str) -> None:
        """Let a stop end the loop that calls this, in place of the script.

        Args:
            end: Asks the loop to end after this step.
            library: The package of the trainer.
        """
        frame = _loop_of(library)
        self._loop = (end, frame) if frame is not None else None

    def end_loop(self) -> None:
        """Note that the loop has ended."""
        self._loop = None

    def has_loop(self) -> bool:
        """Return whether a trainer has told that its loop runs."""
        return self._loop is not None

    def is_in_loop(self) -> bool:
        """Return whether the calling thread is in that loop, which an exception may have ended without a word."""
        if self._loop is None:
            return False
        _, begun = self._loop
        if any(frame is begun for frame in _callers()):
            return True
        self._loop = None
        return False

    def ask_loop_to_end(self) -> bool:
        """Ask the loop to end after this step; return whether there is one."""
        if self._loop is None:
            return False
        end, _ = self._loop
        end()
        return True


def _loop_of(library: str) -> FrameType | None:
    """Return the outermost frame of the trainer that calls a callback of ours."""
    found = None
    for frame in _callers():
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == library:
            found = frame
        elif found is not None:
            break
    return found


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
