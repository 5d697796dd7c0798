"""Output of a timeline: the packed rows of steps, sampled, and events."""

from __future__ import annotations

from threading import get_ident, get_native_id
from typing import Final

from leadline.instrumentation.timeline.device_clock import Marks, PendingSteps
from leadline.instrumentation.timeline.phase_sink import HoldingSink, PhaseSink, initialization_spans, timed_event
from leadline.instrumentation.timeline.sampling import TimelineSampler
from leadline.instrumentation.timeline.step_sums import CallTotals, PhaseSums, flat
from leadline.instrumentation.timeline.thread_clock import UNKNOWN, ThreadClock
from leadline.records import phases
from leadline.records.json_object import JsonObject
from leadline.records.names import MODES

_INDEX: Final = {mode: index for index, mode in enumerate(MODES)}


class StepRows:
    """Writes the steps of one thread, and the calls in them.

    Attributes:
        thread: The identifier of the thread.
        calls: The calls of the current step.
        sampler: Selects the steps that are written.
        pending: Steps whose device times are not known yet.
    """

    def __init__(self, now_ns: int, imported_ns: int | None, thread_clock: ThreadClock) -> None:
        """
        Args:
            now_ns: When the timeline is created.
            imported_ns: When the framework had been imported, if the import created the timeline.
        """
        self.thread, self._native_thread = get_ident(), get_native_id()
        self._created_ns, self._imported_ns, self._thread_clock = now_ns, imported_ns, thread_clock
        self.calls = CallTotals()
        self.sampler = TimelineSampler(now_ns)
        self.pending = PendingSteps()
        self._sink: PhaseSink = HoldingSink()

    def open(self, sink: PhaseSink) -> None:
        """Write to ``sink`` from now on."""
        held, self._sink = self._sink, sink
        if isinstance(held, HoldingSink):
            held.pass_on(sink)

    def take_thread(self) -> int:
        """Write the steps of the current thread from now on; return its identifier."""
        self.thread, self._native_thread = get_ident(), get_native_id()
        self._thread_clock.take_thread()
        return self.thread

    def put(
        self,
        step: int,
        mode: str,
        sums: PhaseSums,
        mode_step: int,
        *,
        start_ns: int,
        end_ns: int,
        own_ns: int,
        ready_ns: int,
        marks: Marks | None,
    ) -> None:
        """Write a step and its calls.

        Args:
            mode_step: The step within its mode; -1: not known.
            own_ns: The overhead in it.
            ready_ns: The time of the thread's clock at its end; -1: not taken.
            marks: Its marks on its device, if there are any.
        """
        duration = end_ns - start_ns
        every = self.sampler.weight(step, duration, end_ns)
        if every:
            delay_ns = self._thread_clock.run_delay_ns if ready_ns != UNKNOWN else UNKNOWN
            times = (step, _INDEX[mode], start_ns, duration, own_ns)
            values = (*times, every, self._native_thread, sums.nesting, ready_ns, delay_ns, mode_step, *flat(sums))
            if marks is not None:
                self.pending.add(list(values), marks)
            else:
                self._sink.put_phases(phases.ROW.pack(*values))
        if self.calls.totals:
            self.put_calls(step, mode, every)
        if self.pending.queue:
            self.poll()

    def poll(self) -> None:
        """Write the times of steps whose end the device has passed."""
        self.pending.write_done(self._sink)

    def drain(self) -> None:
        """Wait for all steps, and write them."""
        self.pending.write_all(self._sink)

    def put_calls(self, step: int, phase: str, every: int = 1) -> None:
        """Write the calls since the last time.

        Args:
            every: The number of steps that the step represents; 0 if it is not written.
        """
        for call, total in self.calls.take():
            if every or call.name == phases.CHECKPOINT:  # checkpoints are written for every step
                weight = {"every": every} if every > 1 and call.name != phases.CHECKPOINT else {}
                args = {**total.args(call), **weight}
                self.emit(call.name, phase, step, total.start_ns, total.duration_ns, args)

    def put_initialization(self, step: int, start_ns: int, now_ns: int) -> None:
        """Write the spans up to the end of the first step; see ``initialization_spans``."""
        created_ns, imported_ns = self._created_ns, self._imported_ns
        spans = initialization_spans(step, start_ns, now_ns, created_ns=created_ns, imported_ns=imported_ns)
        for name, at_step, span_ns, duration_ns in spans:
            self.emit(name, phases.INITIALIZATION, at_step, span_ns, duration_ns)

    def put_finalization(self, step: int, start_ns: int, now_ns: int) -> None:
        """Write the time since the last step, and the calls in it."""
        self.emit(phases.FINALIZATION, phases.FINALIZATION, step, start_ns, now_ns - start_ns)
        self.put_calls(step, phases.FINALIZATION)

    def emit(
        self, name: str, phase: str, step: int, start_ns: int, duration_ns: int, args: JsonObject | None = None
    ) -> None:
        """Write an event."""
        thread = self._native_thread
        self._sink.put_event(timed_event(name, phase, step, start_ns, duration_ns, thread=thread, args=args))
