"""What the script itself gives: logged values, and the losses and arrays that it passes to hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leadline.frameworks.array_capture import CapturedArrays
from leadline.training.guard import Facts
from leadline.training.recorder.scalars import Scalar, ScalarBuffer
from leadline.training.recorder.step_output import StepOutput
from leadline.training.timeline.step_clock import StepClock


class GivenValues:
    """See ``leadline.frameworks.adapter.GivenCallbacks``: decides which step a value belongs to.

    Args:
        number: Returns a scalar of a framework as a number or as a device scalar.
    """

    def __init__(
        self,
        clock: StepClock,
        scalars: ScalarBuffer,
        output: StepOutput,
        facts: Facts,
        number: Callable[[Any], object],
    ) -> None:
        self._clock, self._scalars, self._output, self._number = clock, scalars, output, number
        self._numbers = facts.of("values that are no numbers are", is_vital=True)

    def log(self, values: Mapping[str, Any], collection: str, marks: tuple[str, ...]) -> int:
        """Record numbers; return the global step to which the last one belongs."""
        last, step = self._output.last, self._clock.step
        for name, value in values.items():
            number = self._numbers.call(self._number, value)
            if number is None:
                continue
            scalar = Scalar(collection, (number,), marks)
            if last.takes(name) and last.stamp is not None:
                last.scalars[name], step = scalar, last.stamp.step
            else:
                self._scalars.log(name, scalar)
                step = self._clock.step
        return step

    def follow(self, name: str, value: float, mode: str, *, is_loss: bool) -> bool:
        last = self._output.last
        if not last.takes(name, mode):
            return False
        if not is_loss:
            last.scalars[name] = Scalar("scalars", (value,))
        elif last.wants_loss():
            last.scalars[name] = Scalar("losses", (value, 1.0))
        return True

    def arrays(self, name: str, mode: str) -> CapturedArrays | None:
        last = self._output.last
        return last.arrays if last.takes(("array", name), mode) else None

    def close_step(self) -> None:
        self._output.last.close()
        self._output.complete_step()

    def flush(self) -> None:
        """Write at their own steps the numbers that wait for a scheduled one."""
        self._output.flush_waiting()
