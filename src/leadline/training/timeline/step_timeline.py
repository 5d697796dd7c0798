"""The times of the step under way, marked where the hooks of a framework already are, and handed on as it ends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import get_ident, get_native_id
from typing import Any, Final, Protocol

from leadline.records import phases
from leadline.records.event import Event
from leadline.records.names import MODES
from leadline.training.timeline.call_counts import CallKey, CallTotals
from leadline.training.timeline.device_clock import DeviceClock, Marks
from leadline.training.timeline.phase_sums import (
    BACKWARD_IN_OPTIMIZER,
    DATA_IN_OPTIMIZER,
    FORWARD_IN_OPTIMIZER,
    OPTIMIZER_IN_BACKWARD,
    PhaseSums,
)
from leadline.training.timeline.process_age import process_age_ns
from leadline.training.timeline.sampling import TimelineSampler

_MOST_HELD: Final = 4096
"""Rows and events that are kept while there is no writer yet."""


class OwnTime(Protocol):
    """What watching has taken of the training so far."""

    own_ns: int

    def until(self, now_ns: int) -> int:
        """``own_ns`` with what is under way."""


class PhaseSink(Protocol):
    """Who takes the times of steps."""

    def put_phases(self, row: bytes) -> None:
        """A step, packed as ``records.phases.ROW`` says."""

    def put_event(self, event: Event) -> None:
        """Something else of the timeline."""


@dataclass(slots=True)
class _Held:
    """A sink until there is one."""

    rows: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MOST_HELD))
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_MOST_HELD))

    def put_phases(self, row: bytes) -> None:
        self.rows.append(row)

    def put_event(self, event: Event) -> None:
        self.events.append(event)


class StepTimeline:
    """Adds up how long each phase of the step under way took.

    A step lasts from the end of the one before to its own. **Data**: within ``next`` of a loader's iterator.
    **Backward**: within ``backward``. **Optimizer**: within ``step``. **Forward**: from the last of these that ended,
    or from the step's beginning, to the next ``backward``; of an eval step to its end. What watching itself took
    within a phase is no part of it.

    **One thread** - that which ends the steps; what others do meanwhile is none of the step's.

    **Never fails on order** - a phase that an exception left begins anew.
    """

    def __init__(
        self, own: OwnTime, attached_ns: int | None = None, clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        """
        Args:
            attached_ns: When the framework had been imported, if that is when we came.
        """
        self.facts: dict[str, Any] = {}
        """What was learned by the way: ``batch_size``, ``dataloader_workers``, ``device`` …"""
        self.clock = clock
        self.on_begin: Callable[[], None] = _ignore
        """Called when the first step begins: with its first batch, forward or backward pass."""
        self.on_exhausted: Callable[[], None] = _ignore
        """Called when a loader has no batch left, after the first step."""
        self._own, self._sink = own, _Held()
        self._imported_ns = attached_ns
        now = clock()
        self._began_ns = now
        self._pace = TimelineSampler(now)
        self._thread, self._native_thread, self._has_stepped = get_ident(), get_native_id(), False
        self._from_ns = 0
        """When the step under way began; 0: nothing has begun yet."""
        self._edge_ns = self._edge_own_ns = 0
        """When the last phase ended, and what watching had taken until then."""
        self._step_own_ns = self._forward_own_ns = 0
        self._sums = PhaseSums()
        self._backward_ns = self._backward_own_ns = 0
        self._update_ns = self._update_own_ns = 0
        self._data_ns = 0
        self._eval: tuple[PhaseSums, int] | None = None
        self._eval_end_ns = 0
        self._tallies = CallTotals()
        self._loader: tuple[int | None, int | None] = (None, None)
        self._compiled_ns = 0
        self._marks: Marks | None = None
        """Of the step under way on its device; None: it is timed by the host's clock."""
        self._device: DeviceClock | None = None
        self._late: deque[tuple[list[int], Marks]] = deque()

    def open(self, sink: PhaseSink) -> None:
        """There is somebody who takes the times."""
        held, self._sink = self._sink, sink  # type: ignore[assignment]
        if isinstance(held, _Held):
            for row in held.rows:
                sink.put_phases(row)
            for event in held.events:
                sink.put_event(event)

    def time_on(self, device: DeviceClock) -> None:
        """The steps are computed on a device that is not waited for: its own clock tells how long."""
        if self._device is None:
            self._device = device

    @property
    def backwards(self) -> int:
        """Backward passes in the step under way."""
        return self._sums.backwards

    # --- what the hooks tell ------------------------------------------------------------------------------

    def is_elsewhere(self) -> bool:
        """Whether this thread is not the one whose steps are timed, or already within a wait for data."""
        return self._data_ns != 0 or not self._is_ours()

    def begin_loader(self, workers: int | None, batch_size: int | None) -> None:
        """An iterator over a loader is made, to the next ``end_data``."""
        self._loader = (workers, batch_size)
        if not self._has_stepped and not self._sums.backwards and self._eval is None:
            self._sums, self._from_ns = PhaseSums(), 0  # data was looked at before the training
        self.begin_data()

    def begin_data(self) -> None:
        """The training asks for the next batch."""
        now = self._data_ns = self.clock()
        self._begin(now)
        if self._eval is not None and not self._eval_end_ns:
            self._eval_end_ns = now
        if self._marks is not None:
            self._marks.begin(phases.DATA)

    def end_data(self) -> None:
        """It has it, or there is none any more."""
        begun, self._data_ns = self._data_ns, 0
        if not begun:
            return
        now, sums = self.clock(), self._sums
        sums.data_at = sums.data_at or begun
        sums.data += now - begun
        sums.datas += 1
        if self._update_ns:
            sums.nesting |= DATA_IN_OPTIMIZER
        if self._marks is not None:
            self._marks.end(phases.DATA)
        self._set_edge(now)

    def exhaust(self) -> None:
        """There is no further batch: what comes may be the training's end."""
        if self._has_stepped and self._eval is None:
            self.on_exhausted()

    def compiles(self) -> None:
        """Something is about to be compiled."""
        self._compiled_ns = self.clock()

    def end_forward(self, forward_own_ns: int = 0, forward_begun_ns: int = 0) -> None:
        """A backward pass is about to begin, and with that the forward pass has ended.

        Args:
            forward_own_ns: What watching has taken in the step's forward pass, which is not told otherwise yet.
            forward_begun_ns: When the forward pass began, if somebody looked.
        """
        if not self._is_ours():
            return
        now = self.clock()
        if not self._from_ns:
            self._begin(forward_begun_ns or self._compiled_ns or now)
        sums, own = self._sums, self._own.own_ns
        spent = own - self._edge_own_ns + max(forward_own_ns - self._forward_own_ns, 0)
        self._forward_own_ns = forward_own_ns
        start = max(self._edge_ns, self._from_ns)
        sums.forward_at = sums.forward_at or start
        sums.forward += max(now - start - spent, 0)
        sums.forwards += 1
        if self._update_ns:
            sums.nesting |= FORWARD_IN_OPTIMIZER
        if self._tallies:
            self._tallies.settle(start)
        if self._marks is not None:
            self._marks.end_forward()
        self._edge_ns, self._edge_own_ns = now, own

    def begin_backward(self) -> None:
        """The backward pass begins, after ``end_forward``."""
        if self._is_ours():
            self._backward_ns, self._backward_own_ns = self.clock(), self._own.own_ns

    def end_backward(self) -> int:
        """It has ended; how long it took, 0 where that is not known."""
        begun, self._backward_ns = self._backward_ns, 0
        if not begun or not self._is_ours():
            return 0
        now, sums = self.clock(), self._sums
        took = max(now - begun - self._own.own_ns + self._backward_own_ns, 0)
        sums.backward_at = sums.backward_at or begun
        sums.backward += took
        sums.backwards += 1
        if self._update_ns:
            sums.nesting |= BACKWARD_IN_OPTIMIZER
        if self._marks is not None:
            self._marks.end(phases.BACKWARD)
        self._set_edge(now)
        return took

    def begin_update(self) -> None:
        """An optimizer begins to step, or a gradient scaler to have it step."""
        if self._update_ns or not self._is_ours():
            return
        now = self.clock()
        if not self._from_ns:
            self._begin(self._compiled_ns or now)
        self._update_ns, self._update_own_ns = now, self._own.own_ns
        if self._marks is not None:
            self._marks.begin(phases.OPTIMIZER)
        self._set_edge(now)

    def end_update(self) -> None:
        """It has stepped."""
        begun, self._update_ns = self._update_ns, 0
        if not begun or not self._is_ours():
            return
        now, sums = self.clock(), self._sums
        sums.optimizer_at = sums.optimizer_at or begun
        sums.optimizer += max(now - begun - self._own.own_ns + self._update_own_ns, 0)
        sums.optimizers += 1
        if self._backward_ns:
            sums.nesting |= OPTIMIZER_IN_BACKWARD
        if self._marks is not None:
            self._marks.end(phases.OPTIMIZER)
        self._set_edge(now)

    def leave_update(self) -> None:
        """A step that was left by an exception is none."""
        self._update_ns = 0

    def collective(self, begun_ns: int, op: str, group: str, size: int | None) -> None:
        """Ranks exchanged something.

        Args:
            size: Bytes that this rank gave; None: nobody knows.
        """
        self._tally((phases.COLLECTIVE, op, group), begun_ns, size)

    def reduction(self, waited_ns: int, group: str, size: int) -> None:
        """The backward pass that has just ended waited for other ranks in the end."""
        call = CallKey(phases.COLLECTIVE, "reduction", group, phases.BACKWARD)
        self._tallies.add(call, self._edge_ns - waited_ns, waited_ns, size)

    def checkpoint(self, begun_ns: int, size: int | None = None) -> None:
        """Something was saved."""
        self._tally((phases.CHECKPOINT, "", ""), begun_ns, size)
        if not self._backward_ns and not self._update_ns and self._eval is None:
            self._set_edge(self.clock())
            if self._marks is not None:
                self._marks.cut()

    def _tally(self, key: tuple[str, str, str], begun_ns: int, size: int | None) -> None:
        if not self._is_ours():
            return
        now = self.clock()
        if now < begun_ns:
            return
        within = (
            phases.OPTIMIZER
            if self._update_ns
            else phases.BACKWARD
            if self._backward_ns
            else phases.DATA
            if self._data_ns
            else ""
        )
        self._tallies.add(CallKey(*key, within), begun_ns, now - begun_ns, size)

    # --- steps --------------------------------------------------------------------------------------------

    def begin_eval(self) -> None:
        """A forward pass of an eval step begins; data that was waited for since the last step is its own."""
        if not self._is_ours():
            return
        now = self.clock()
        self._begin(now)
        self._eval, self._sums = (self._sums, max(self._edge_ns, self._from_ns)), PhaseSums()
        self._eval_end_ns = 0
        self._marks = None

    def forget_eval(self) -> None:
        """It was a training step's forward pass."""
        if self._eval is None:
            return
        (before, _), self._eval = self._eval, None
        before.add(self._sums)
        self._sums, self._eval_end_ns = before, 0

    def end_eval(self, step: int, mode: str, forward_own_ns: int) -> None:
        """The eval step is over: at the last wait for data since, or now."""
        if self._eval is None:
            return
        (sums, start), self._eval = self._eval, None
        now = self.clock()
        end = self._eval_end_ns or now
        sums.forward_at, sums.forwards = start, 1
        sums.forward = max(end - start - forward_own_ns, 0)
        if self._tallies:
            self._tallies.settle(start)
        own = self._own.until(now)
        self._put(step, mode, sums, end, own)
        if not self._sums.datas:
            self._edge_ns, self._edge_own_ns = now, own
        self._next(end, step)

    def end_step(self, step: int) -> None:
        """A train step has ended, now."""
        if self._eval is not None:
            self.forget_eval()
        now = self.clock()
        sums, self._sums = self._sums, PhaseSums()
        if not self._is_ours() or not self._from_ns:
            self._thread, self._native_thread = get_ident(), get_native_id()
            self._from_ns = self._from_ns or now
        if not self._has_stepped:
            self._tell_beginning(step, now)
            self._has_stepped = True
        if self._marks is not None:
            self._marks.close()
        own = self._own.until(now)
        self._put(step, "train", sums, now, own)
        if sums.datas and "dataloader_workers" not in self.facts:
            self._tell_loader()
        self._backward_ns = self._update_ns = self._forward_own_ns = 0
        self._next(now, step)
        self._edge_ns, self._edge_own_ns = now, own
        if self._late:
            self.poll()

    def finish(self, step: int) -> None:
        """The training is over, and perhaps the process.

        Args:
            step: The last one.
        """
        while self._late:
            self._late[0][1].wait()
            self._hand_on()
        if self._has_stepped:
            now = self.clock()
            self._emit(phases.FINALIZATION, phases.FINALIZATION, step, self._from_ns, now - self._from_ns)
            self._put_tallies(step, phases.FINALIZATION)

    def poll(self) -> None:
        """Hand on the times of steps that their device has come to the end of."""
        while self._late and self._late[0][1].is_done():
            self._hand_on()

    def _hand_on(self) -> None:
        values, marks = self._late.popleft()
        marks.fill(values)
        self._sink.put_phases(phases.ROW.pack(*values))

    def _put(self, step: int, mode: str, sums: PhaseSums, end_ns: int, own_ns: int) -> None:
        duration = end_ns - self._from_ns
        every = self._pace.weight(step, duration, end_ns)
        marks = self._marks
        if every:
            values = (
                step,
                MODES.index(mode),
                self._from_ns,
                duration,
                own_ns - self._step_own_ns,
                every,
                self._native_thread,
                sums.nesting,
                *sums.flat(),
            )
            if marks is not None:
                self._late.append((list(values), marks))
            else:
                self._sink.put_phases(phases.ROW.pack(*values))
        self._step_own_ns = own_ns
        if self._tallies:
            self._put_tallies(step, mode, every)

    def _next(self, begin_ns: int, step: int) -> None:
        """The next step begins; whether its device tells its time is settled by its number."""
        self._from_ns = begin_ns
        device = self._device
        if device is not None:
            closed, self._marks = self._marks, None
            if self._pace.chooses(step + 1):
                self._marks = Marks(device, closed.last if closed is not None else device.mark())

    def _put_tallies(self, step: int, phase: str, every: int = 1) -> None:
        for call, each in self._tallies.take():
            if every or call.name == phases.CHECKPOINT:  # a step that is not written itself keeps its collectives
                weight = {"every": every} if every > 1 and call.name != phases.CHECKPOINT else {}
                self._emit(call.name, phase, step, each.start_ns, each.duration_ns, {**each.args(call), **weight})

    def _tell_beginning(self, step: int, now_ns: int) -> None:
        start = self._from_ns
        if self._imported_ns is not None:
            age = process_age_ns()
            if age is not None:
                born = self.clock() - age
                self._emit(phases.IMPORTS, phases.INITIALIZATION, 0, born, max(self._imported_ns - born, 0))
        begun = self._imported_ns or self._began_ns
        self._emit(phases.SETUP, phases.INITIALIZATION, 0, begun, max(start - begun, 0))
        self._emit(phases.FIRST_STEP, phases.INITIALIZATION, step, start, now_ns - start)

    def _tell_loader(self) -> None:
        workers, batch_size = self._loader
        if workers is not None:
            self.facts["dataloader_workers"] = workers
        if batch_size is not None:
            self.facts["batch_size"] = batch_size

    def _emit(
        self, name: str, phase: str, step: int, start_ns: int, duration_ns: int, args: dict[str, Any] | None = None
    ) -> None:
        wall_ns = time.time_ns() - time.perf_counter_ns() + start_ns
        self._sink.put_event(Event(name, step, wall_ns, duration_ns, phase, self._native_thread, args or {}))

    # --- inside -------------------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        ident = get_ident()
        if ident == self._thread:
            return True
        if self._has_stepped:
            return False
        self._thread, self._native_thread = ident, get_native_id()
        return True

    def _begin(self, now_ns: int) -> None:
        if not self._from_ns:
            self._from_ns = now_ns
            self.on_begin()
            self._set_edge(now_ns)

    def _set_edge(self, now_ns: int) -> None:
        self._edge_ns, self._edge_own_ns = now_ns, self._own.own_ns


def _ignore() -> None: ...
