"""Output of the recorder: rows, tensors and the ends of steps, queued until they are copied off the accelerator."""

from __future__ import annotations

import math
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.frameworks.adapter import Forward, Program
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.frameworks.pending import Pending, PendingNumbers
from leadline.instrumentation.guard import Facts
from leadline.instrumentation.step_context import StepContext
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.records.event import Event
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout, StepStamp
from leadline.store.tensors import CaptureForm, TensorCapture
from leadline.store.writer import SKIPPED_LAYOUT, Writer
from leadline.training.recorder.last_step import LastStep
from leadline.training.recorder.mode_schedules import PlanSchedules
from leadline.training.recorder.overhead import Overhead
from leadline.training.recorder.scalars import LossRow, Scalar, ScalarBuffer, ScalarRows

_EVERYTHING: Final = (CaptureItem(),)
_COUNTS: Final = frozenset({"nan_count", "nonfinite_count"})
_MAX_LAYOUTS: Final = 256


class StepOutput:
    """Writes what was captured at a step, and ends the step.

    Args:
        open_writer: Opens the worker's writer; called at the first step, so that processes that never train leave no
            trace.

    Attributes:
        queue: The queue to the writer; None until the first step.
        last: The step that ended last.
    """

    def __init__(
        self,
        context: StepContext,
        frameworks: LoadedAdapters,
        schedules: PlanSchedules,
        scalars: ScalarBuffer,
        *,
        overhead: Overhead,
        timeline: StepTimeline,
        open_writer: Callable[[], Writer],
    ) -> None:
        self.queue: WriteQueue | None = None
        self._context = context
        self._frameworks = frameworks
        self._schedules = schedules
        self._scalars = scalars
        self._overhead, self._timeline, self._open_writer = overhead, timeline, open_writer
        self._rows = ScalarRows()
        facts = context.facts
        self._forward_facts = (
            facts.of("statistics of forward passes are"),
            facts.of("raw tensors of forward passes are"),
        )
        self._count_columns: dict[int, tuple[SeriesLayout, tuple[int, ...]]] = {}
        self.last = LastStep(timeline.progress, context.note)

    def open(self) -> None:
        """Open the worker's streams, if they are not open yet."""
        context = self._context
        if context.writer is None:
            context.writer = self._open_writer()
            self.queue = WriteQueue(context.writer, context.facts)
            self._timeline.open(context.writer)

    def put_scalars(self, stamp: StepStamp, scalars: Mapping[str, Scalar]) -> None:
        """Write a row of scalars."""
        if self.queue is not None:
            layout, values = self._row_of(scalars)
            if stamp.mode == "train":
                self._scalars.train_losses.set_row_layout(layout)
            self._put_losses(self.queue, stamp, layout, values)

    def _row_of(self, scalars: Mapping[str, Scalar]) -> tuple[SeriesLayout, bytes | PendingNumbers]:
        """Return a row of scalars, without those that are no numbers."""
        fact, row, fetch = (
            self._context.facts.of("values that are no numbers are", is_vital=True),
            self._rows.row,
            self._frameworks.row,
        )
        found = fact.call(row, scalars, fetch)
        if found is not None:
            return found
        alone = {name: scalar for name, scalar in scalars.items() if fact.call(row, {name: scalar}, fetch) is not None}
        return row(alone, fetch)

    def _put_losses(
        self, queue: WriteQueue, stamp: StepStamp, layout: SeriesLayout, values: bytes | PendingNumbers
    ) -> None:
        """Put a row with losses that are kept as the latest ones when they are known."""

        def keep_losses(layout: SeriesLayout, values: bytes) -> bool:
            return self._keep_losses(stamp, layout, values)

        queue.put_row(layout, stamp, values, keep_losses)

    def put_tensors(self, form: CaptureForm, stamp: StepStamp, source: Program | Forward) -> None:
        """Write raw tensors, if there is memory for them."""
        writer = self._context.writer
        buffer = writer.acquire(form, stamp.step) if writer is not None else None
        copied = source.fill(buffer)
        if buffer is not None and self.queue is not None:
            self.queue.put_tensors(TensorCapture(buffer, stamp.step, stamp.time_ns), copied)

    def put_forward(self, forward: Forward, stamp: StepStamp, items: Sequence[CaptureItem]) -> None:
        """Write what was captured in a forward pass.

        Args:
            items: The items that were captured.
        """
        if forward.accuracy:
            self._scalars.add_accuracies(forward.accuracy)
        if self._context.writer is None:
            return
        self._overhead.add(forward.own_ns, forward.begun_ns)
        begun = time.thread_time_ns()
        self._put_arrays(forward, stamp)
        budget = self._schedules.budget
        if budget is not None:
            groups = self._schedules.of(stamp.mode).forward.groups(items)
            budget.charge(groups, "forward", time.thread_time_ns() - begun + forward.own_ns)

    def _put_arrays(self, forward: Forward, stamp: StepStamp) -> None:
        statistics, raw = self._forward_facts
        row = statistics.call(forward.row)
        if row is not None and self.queue is not None:
            self.queue.put_row(row[0], stamp, row[1], self.has_non_finite)
        form = raw.call(forward.raw_form)
        if form is not None and stamp.mode != "train" and self._frameworks.is_distributed():
            self._context.note(
                "raw tensors of eval steps are not stored in distributed training: the ranks' eval steps share a number"
            )
            form = None
        if form is not None:
            raw.call(self.put_tensors, form, stamp, forward)

    def end_step(
        self,
        stamp: StepStamp,
        scalars: Mapping[str, Scalar],
        losses: LossRow | None = None,
        *,
        items: Sequence[CaptureItem] = (),
        wants_loss: Callable[[], bool] = lambda: False,
    ) -> None:
        """Write the scalars of a step and end it; it is complete when the next step has begun.

        Args:
            losses: The row of its losses, if it is not among the scalars.
            items: The items that were captured between the beginning and the end of the step.
            wants_loss: Returns whether its losses are captured.
        """
        self.complete_step()
        logged, scalar_items = self._scalars, None
        waiting: dict[str, Scalar] = {}
        if logged.has_logged():
            scalar_items = self._schedules.of(stamp.mode).scalars.advance_to(stamp.mode_step)
            waiting = logged.take_waiting(scalar_items, stamp.mode)
            scalars = {**scalars, **logged.take_logged(scalar_items, stamp)}
        if losses is not None and self.queue is not None:
            if isinstance(losses.values, bytes):
                is_urgent = is_never_urgent if losses.is_finite else _is_always_urgent
                self.queue.put_row(losses.layout, stamp, losses.values, is_urgent)
            else:
                self._put_losses(self.queue, stamp, losses.layout, losses.values)
        if scalars:
            self.put_scalars(stamp, scalars)
        self.last.end(
            stamp,
            scalars=waiting,
            scalar_items=scalar_items,
            array_items=self._frameworks.given_items(items),
            wants_loss=wants_loss,
        )
        if self._schedules.budget is not None:
            self._schedules.budget.end_step()
        is_counted = stamp.mode == "train" or not self._frameworks.is_distributed()
        self._context.clock.tick(stamp.mode, is_counted=is_counted)

    def complete_step(self) -> None:
        """Write what followed the step that ended last, and mark all its data as queued."""
        last = self.last
        if last.stamp is None:
            return
        if last.scalars:
            if last.scalar_items is None:
                last.scalar_items = self._schedules.of(last.stamp.mode).scalars.advance_to(last.stamp.mode_step)
            self._put_following(last.stamp, self._scalars.selected(last.take_scalars(), last.scalar_items, last.stamp))
        if not last.arrays.is_empty:
            self._put_arrays(last.arrays, last.stamp)
        if not last.is_complete:
            last.is_complete = True
            if self.queue is not None:
                self.queue.finish_step(last.stamp)

    def extend_last_step(self) -> None:
        """Capture of the step that ended last what a changed plan schedules for it."""
        stamp = self.last.stamp
        if stamp is not None:
            items = self._schedules.scheduled(stamp.mode, stamp.mode_step)
            self.last.extend(self._frameworks.given_items(items), items)

    def complete_overdue_step(self) -> None:
        """Complete the step that ended last if nothing has followed it for long; called in the writer's thread."""
        if self.last.is_overdue and {float}.issuperset(type(s.values[0]) for s in list(self.last.scalars.values())):
            self.complete_step()

    def _put_following(self, stamp: StepStamp, scalars: Mapping[str, Scalar]) -> None:
        """Write numbers that were logged after their step had ended."""
        if scalars and self.queue is not None:
            self._put_losses(self.queue, stamp, *self._row_of(scalars))

    def flush_logged(self) -> None:
        """Write values logged since the last step ended as values of that step: no step follows.

        Metrics that a process without any step logs through other libraries open no stream: helper processes stay
        silent.
        """
        stamp = self.last.stamp or self._context.clock.last_stamp()
        scalars = self._scalars.take_logged(_EVERYTHING, stamp)
        if self._context.writer is not None or any(scalar.collection != "metrics" for scalar in scalars.values()):
            self.open()
            self.flush_waiting()
            self._put_following(stamp, scalars)

    def put_logged(self, stamp: StepStamp) -> None:
        """Write all that was logged as values of a step."""
        self._put_following(stamp, self._scalars.take_logged(_EVERYTHING, stamp))

    def flush_waiting(self) -> None:
        """Write the values that wait for a scheduled step at the steps to which they belong."""
        self.complete_step()
        for stamp, scalars in self._scalars.take_waiting_steps().items():
            self._put_following(stamp, self._scalars.selected(scalars, _EVERYTHING, stamp))

    def has_non_finite(self, layout: SeriesLayout, values: Any) -> bool:
        """Return whether a row reports an element that is NaN or infinite."""
        known = self._count_columns.get(id(layout))
        if known is None or known[0] is not layout:
            if len(self._count_columns) >= _MAX_LAYOUTS:
                self._count_columns.clear()
            columns = tuple(index for index, (_, statistic) in enumerate(layout.columns) if statistic in _COUNTS)
            known = self._count_columns[id(layout)] = (layout, columns)
        numbers = memoryview(values).cast("d")
        return any(map(numbers.__getitem__, known[1]))

    def _keep_losses(self, stamp: StepStamp, layout: SeriesLayout, values: bytes) -> bool:
        """Keep the latest losses; return whether one of the row's numbers is not finite."""
        numbers = memoryview(values).cast("d")
        self._scalars.losses_of(stamp.mode).update_latest(layout, numbers)
        return not all(map(math.isfinite, numbers))


MAX_STEPS_LATE: Final = 32
"""Entries of earlier steps than this are waited for."""
_ZERO: Final = bytes(8)


@dataclass(frozen=True, slots=True)
class _Entry:
    step: int
    pending: tuple[Pending, ...]
    emit: Callable[[], None]


class WriteQueue:
    """Passes captures on to the worker's writer as soon as they are complete.

    **Order** - the writer receives everything in the order in which it was put, also what is complete at once: the end
    of a step never precedes its rows.

    **Never waits** - except in ``drain``, and for entries that are more than ``MAX_STEPS_LATE`` steps late.
    """

    def __init__(self, writer: Writer, facts: Facts) -> None:
        self._writer = writer
        self._arrived = facts.of("numbers that a device has computed are", is_vital=True)
        self._queue: deque[_Entry] = deque()

    def put_row(
        self,
        row_layout: SeriesLayout,
        stamp: StepStamp,
        values: bytes | PendingNumbers,
        is_urgent: Callable[[SeriesLayout, bytes], bool],
        *,
        skipped: object = False,
    ) -> None:
        """Put a row.

        Args:
            is_urgent: Called with the row once its numbers have arrived.
            skipped: Whether a gradient scaler skips the step, so that the row is not written; possibly a pending row of
                one number.
        """

        if not self._queue and skipped is False and isinstance(values, bytes):
            self._writer.put_row(row_layout, stamp, values, is_urgent=is_urgent(row_layout, values))
            return

        def emit() -> None:
            if not _is_true(skipped):
                numbers = values if isinstance(values, bytes) else self._arrived.call(values.values)
                if numbers is not None:
                    self._writer.put_row(row_layout, stamp, numbers, is_urgent=is_urgent(row_layout, numbers))

        self._put(stamp.step, emit, values, skipped)

    def put_skipped(self, optimizer: str, stamp: StepStamp, skipped: object) -> None:
        """Put the event that a gradient scaler skips the step, if ``skipped`` is true."""

        def emit() -> None:
            if _is_true(skipped):
                args = {"optimizer": optimizer}
                self._writer.put_event(Event("step_skipped", stamp.step, stamp.time_ns, args=args))
                self._writer.put_row(SKIPPED_LAYOUT, stamp, struct.pack("<d", 1.0))

        self._put(stamp.step, emit, skipped)

    def put_tensors(self, capture: TensorCapture, copied: Pending | None) -> None:
        """Put raw tensors.

        Args:
            copied: The copy into their buffer; None if it is complete.
        """
        self._put(capture.step, lambda: self._writer.put_tensors(capture), copied)

    def finish_step(self, stamp: StepStamp) -> None:
        """End a step: everything of it has been put."""
        if not self._queue:
            self._writer.finish_step(stamp)
            return
        self._put(stamp.step, lambda: self._writer.finish_step(stamp))
        self.poll(stamp.step)

    def poll(self, step: int) -> None:
        """Pass on what has arrived.

        Args:
            step: The current step.
        """
        queue = self._queue
        while queue and all(pending.is_done() for pending in queue[0].pending):
            queue.popleft().emit()
        while queue and queue[0].step < step - MAX_STEPS_LATE:
            self._wait_for_first()

    def drain(self) -> None:
        """Wait for all entries."""
        while self._queue:
            self._wait_for_first()

    def _put(self, step: int, emit: Callable[[], None], *parts: object) -> None:
        pending = tuple(part for part in parts if _is_pending(part))
        if pending or self._queue:
            self._queue.append(_Entry(step, pending, emit))  # type: ignore[arg-type]
        else:
            emit()

    def _wait_for_first(self) -> None:
        first = self._queue.popleft()
        for pending in first.pending:
            pending.wait()
        first.emit()


def _is_always_urgent(layout: SeriesLayout, values: bytes) -> bool:
    return True


def is_never_urgent(layout: SeriesLayout, values: bytes) -> bool:
    """Return False: no row is flushed at once."""
    return False


def _is_pending(part: object) -> bool:
    return part is not None and not isinstance(part, (bool, bytes))


def _is_true(skipped: object) -> bool:
    if isinstance(skipped, bool):
        return skipped
    value: bytes = skipped if isinstance(skipped, bytes) else skipped.values()  # type: ignore[attr-defined]
    return value != _ZERO
