"""Capture of what an optimizer updates, before and after its updates."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

from leadline.frameworks.adapter import Program, Subject
from leadline.frameworks.capabilities import BlocksTrainingThread
from leadline.frameworks.pending import PendingNumbers
from leadline.instrumentation.guard import Fact
from leadline.instrumentation.step_context import StepContext
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout, StepStamp
from leadline.training.recorder.budget import Budget
from leadline.training.recorder.capture_groups import Part
from leadline.training.recorder.overhead import Overhead
from leadline.training.recorder.schedule import CaptureSchedule
from leadline.training.recorder.step_output import StepOutput, is_never_urgent

Items = tuple[CaptureItem, ...]


class _Running(NamedTuple):
    """A capture of the current step, between the beginning and the end of an update."""

    program: Program
    items: Items
    stamp: StepStamp


@dataclass(slots=True)
class Watched:
    """An optimizer, its parameters, and the programs built for it."""

    subject: Subject | None
    """None: it could not be read, so that nothing of it is captured."""
    schedule: CaptureSchedule
    programs: dict[tuple[int, ...], Program | None] = field(default_factory=dict)
    running: list[_Running] = field(default_factory=list)


class UpdateCapture:
    """Runs the programs of optimizers.

    **Fails in part** - all items of a step are captured together; once that fails each is captured alone, so that only
    those end that fail.
    """

    def __init__(
        self, context: StepContext, output: StepOutput, cost: Overhead, budget: Budget | None, device_bytes: int
    ) -> None:
        self._context = context
        self._output = output
        self._cost = cost
        self._budget = budget
        self._device_bytes = device_bytes
        self._together = Fact("", lambda line: None, lambda: 0)
        """All items of a step at once; what ends with it is captured one by one."""

    def begin(self, watched: Watched, items: Items) -> None:
        """Capture items ahead of an update."""
        watched.running.clear()
        if watched.subject is None:
            return
        if len(items) > 1 and self._begin(watched, items, self._together):
            return
        for item in items:
            self._begin(watched, (item,), self._context.facts.of(f"{_described(item)} are"))

    def end(self, watched: Watched, skipped: bool | bytes | PendingNumbers) -> None:
        """Capture what the update has changed.

        Args:
            skipped: Whether a gradient scaler skips the step; possibly a pending row of one number.
        """
        running, queue = watched.running, self._output.queue
        watched.running = []
        for program, items, stamp in running:
            if program.update_layout is None or queue is None or skipped is True:
                continue
            begun = time.thread_time_ns()
            values = self._context.facts.of(f"changes of {_listed(items)} are").call(program.after)
            if values is not None:
                queue.put_row(program.update_layout, stamp, values, is_never_urgent, skipped=skipped)
            self._end_part(watched, items, "tensors", begun)

    def _begin(self, watched: Watched, items: Items, fact: Fact) -> bool:
        """Run the program of some items; return whether that was possible."""
        begun, stamp, output = time.thread_time_ns(), self._context.clock.stamp(), self._output
        found = fact.call(self._run, watched, items)
        if found is None:
            return False
        (program, row), queue = found, output.queue
        if program is None or queue is None:
            return True
        watched.running.append(_Running(program, items, stamp))
        if row is not None:
            queue.put_row(row[0], stamp, row[1], output.has_non_finite)
        if isinstance(program, BlocksTrainingThread):
            waited_ns = program.take_blocked_ns()
            self._cost.include(waited_ns)
            begun -= waited_ns
        begun = self._end_part(watched, items, "tensors", begun)
        self._context.facts.of(f"raw tensors of {_listed(items)} are").call(self._put_raw, program, stamp)
        self._end_part(watched, items, "raw", begun)
        return True

    def _run(
        self, watched: Watched, items: Items
    ) -> tuple[Program | None, tuple[SeriesLayout, bytes | PendingNumbers] | None]:
        key = tuple(id(item) for item in items)
        if key not in watched.programs:
            assert watched.subject is not None
            watched.programs[key] = watched.subject.program(items, self._device_bytes)
        program = watched.programs[key]
        return program, program.before() if program is not None and self._output.queue is not None else None

    def _put_raw(self, program: Program, stamp: StepStamp) -> None:
        form = program.raw_form()
        if form is not None:
            self._output.put_tensors(form, stamp, program)

    def _end_part(self, watched: Watched, items: Items, part: Part, begun_ns: int) -> int:
        """Charge a part of a capture, in processor time of the thread; return when it ended."""
        now = time.thread_time_ns()
        if self._budget is not None:
            self._budget.charge(watched.schedule.groups(items), part, now - begun_ns)
        return now


def _described(item: CaptureItem) -> str:
    """``mean, std of gradients``."""
    what = item.collection or f"tensors named {item.regex}"
    return f"{', '.join(item.statistics)} of {what}" if item.statistics else what


def _listed(items: Items) -> str:
    return ", ".join(dict.fromkeys(item.collection or f"tensors named {item.regex}" for item in items))
