"""Queue of rows and tensors that are still being copied off an accelerator, in front of the writer."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from leadline.records.event import Event
from leadline.records.series import SeriesLayout, StepStamp
from leadline.store.tensors import TensorCapture
from leadline.store.writer import SKIPPED_LAYOUT, Writer
from leadline.training.pending import Pending, PendingNumbers

MAX_STEPS_LATE: Final = 8
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

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
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

        def emit() -> None:
            if not _is_true(skipped):
                numbers = values if isinstance(values, bytes) else values.values()
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


def _is_pending(part: object) -> bool:
    return part is not None and not isinstance(part, (bool, bytes))


def _is_true(skipped: object) -> bool:
    if isinstance(skipped, bool):
        return skipped
    value: bytes = skipped if isinstance(skipped, bytes) else skipped.values()  # type: ignore[attr-defined]
    return value != _ZERO
