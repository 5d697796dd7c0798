"""What waits to be written: rows and tensors of which something is still on its way off an accelerator."""

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

MOST_STEPS_LATE: Final = 8
"""Steps further back than this are waited for."""
_ZERO: Final = bytes(8)


@dataclass(frozen=True, slots=True)
class _Late:
    step: int
    pending: tuple[Pending, ...]
    emit: Callable[[], None]


class WriteQueue:
    """Gives a worker's writer what a step has to say as soon as it is all there.

    **Order** - the writer is given things in the order in which they were put, those that need not wait too: that a
    step has ended is never told before its rows.

    **Never waits** - but in ``drain``, and where something is more than ``MOST_STEPS_LATE`` steps late.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._queue: deque[_Late] = deque()

    def put_row(
        self,
        row_layout: SeriesLayout,
        stamp: StepStamp,
        values: bytes | PendingNumbers,
        is_urgent: Callable[[SeriesLayout, bytes], bool],
        *,
        skipped: object = False,
    ) -> None:
        """One row.

        Args:
            is_urgent: Asked of the row when its numbers are there.
            skipped: Whether a gradient scaler skips the step, so that the row is to be left out; perhaps a row of
                one number that is still on its way.
        """

        def emit() -> None:
            if not _is_true(skipped):
                come = values if isinstance(values, bytes) else values.values()
                self._writer.put_row(row_layout, stamp, come, is_urgent=is_urgent(row_layout, come))

        self._put(stamp.step, emit, values, skipped)

    def put_skipped(self, optimizer: str, stamp: StepStamp, skipped: object) -> None:
        """That a gradient scaler skips the step, if that is what ``skipped`` says."""

        def emit() -> None:
            if _is_true(skipped):
                args = {"optimizer": optimizer}
                self._writer.put_event(Event("step_skipped", stamp.step, stamp.time_ns, args=args))
                self._writer.put_row(SKIPPED_LAYOUT, stamp, struct.pack("<d", 1.0))

        self._put(stamp.step, emit, skipped)

    def put_tensors(self, capture: TensorCapture, copied: Pending | None) -> None:
        """A buffer.

        Args:
            copied: Tells when it is filled; None: it is.
        """
        self._put(capture.step, lambda: self._writer.put_tensors(capture), copied)

    def finish_step(self, stamp: StepStamp) -> None:
        """Everything of this step has been put."""
        self._put(stamp.step, lambda: self._writer.finish_step(stamp))
        self.poll(stamp.step)

    def poll(self, step: int) -> None:
        """Pass on what has come.

        Args:
            step: The one under way.
        """
        queue = self._queue
        while queue and all(each.is_done() for each in queue[0].pending):
            queue.popleft().emit()
        while queue and queue[0].step < step - MOST_STEPS_LATE:
            self._await_first()

    def drain(self) -> None:
        """Wait for all of it."""
        while self._queue:
            self._await_first()

    def _put(self, step: int, emit: Callable[[], None], *what: object) -> None:
        pending = tuple(each for each in what if _is_pending(each))
        if pending or self._queue:
            self._queue.append(_Late(step, pending, emit))  # type: ignore[arg-type]
        else:
            emit()

    def _await_first(self) -> None:
        first = self._queue.popleft()
        for each in first.pending:
            each.wait()
        first.emit()


def _is_pending(what: object) -> bool:
    return what is not None and not isinstance(what, (bool, bytes))


def _is_true(skipped: object) -> bool:
    if isinstance(skipped, bool):
        return skipped
    found: bytes = skipped if isinstance(skipped, bytes) else skipped.values()  # type: ignore[attr-defined]
    return found != _ZERO
