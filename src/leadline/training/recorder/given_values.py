"""What the script itself gives: logged values, and the losses and arrays that it passes to hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leadline.frameworks.array_capture import CapturedArrays
from leadline.instrumentation.guard import Facts
from leadline.instrumentation.timeline.step_clock import StepClock
from leadline.records.metric_names import PRINTED
from leadline.records.metric_roles import KNOWN, role_collection
from leadline.training.recorder.logged_rows import LoggedRows
from leadline.training.recorder.scalars import Scalar, ScalarBuffer
from leadline.training.recorder.step_output import StepOutput


class GivenValues:
    """See ``leadline.frameworks.adapter.GivenCallbacks``: decides which step a value belongs to.

    Args:
        number: Returns a scalar of a framework as a number or as a device scalar.
        roles: The roles of logged metrics by name, in addition to those that are known; they are marked with its
            collection.
        rows: Takes the values in a process that never trains.
    """

    def __init__(
        self,
        clock: StepClock,
        scalars: ScalarBuffer,
        output: StepOutput,
        facts: Facts,
        number: Callable[[Any], object],
        roles: Mapping[str, str],
        rows: LoggedRows,
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._scalars = scalars
        self._output = output
        self._number = number
        self._numbers = facts.of("values that are no numbers are", is_vital=True)
        self._names: frozenset[str] = frozenset()
        self._roles = {**KNOWN, **roles}

    def log(self, values: Mapping[str, Any], collection: str, marks: tuple[str, ...] = ()) -> int:
        """Record numbers; return the global step to which the last one belongs."""
        last, step = self._output.last, self._clock.step
        is_printed = PRINTED in marks
        if not is_printed and not self._names.issuperset(values):
            self._names = self._names.union(values)
        if not is_printed:
            self._rows.note(values.keys())
        for name, value in values.items():
            number = self._numbers.call(self._number, value)
            if number is None:
                continue
            role = "" if is_printed else self._roles.get(name, "")
            scalar = Scalar(collection, (number,), (*marks, role_collection(role)) if role else marks)
            if last.takes((PRINTED, name) if is_printed else name) and last.stamp is not None:
                last.scalars[name], step = scalar, last.stamp.step
            else:
                self._scalars.log(name, scalar)
                step = self._clock.step
        return step

    # --- printed numbers ----------------------------------------------------------------------------------

    def place(self, name: str) -> tuple[str, int]:
        """Return the mode and the global step to which a printed number of that name belongs now."""
        last = self._output.last
        if last.would_take((PRINTED, name)) and last.stamp is not None:
            return last.stamp.mode, last.stamp.step
        return self._clock.named or "train", self._clock.step

    def has_losses(self, mode: str) -> bool:
        """Return whether losses of a mode have been captured."""
        return bool(self._scalars.losses_of(mode).names)

    def logged_names(self) -> frozenset[str]:
        """Return the names that were logged, not printed, and those of scores."""
        return self._names | self._scalars.score_names

    def withdraw(self, name: str) -> None:
        """Forget a printed number that is not written yet."""
        scalar = self._output.last.scalars.get(name)
        if scalar is not None and PRINTED in scalar.marks:
            del self._output.last.scalars[name]
        self._scalars.withdraw_printed(name)

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
