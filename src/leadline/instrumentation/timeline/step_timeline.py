"""Times of the phases of the current step, taken in the hooks of a framework."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import get_ident

from leadline.instrumentation.timeline import step_sums
from leadline.instrumentation.timeline.device_clock import DeviceClock, Marks
from leadline.instrumentation.timeline.phase_sink import OwnTime, PhaseSink
from leadline.instrumentation.timeline.step_clock import NullListener, StepListener
from leadline.instrumentation.timeline.step_progress import StepProgress
from leadline.instrumentation.timeline.step_rows import StepRows
from leadline.instrumentation.timeline.step_sums import CallKey, PhaseSums
from leadline.instrumentation.timeline.thread_clock import UNKNOWN, SampledSteps, ThreadClock
from leadline.records import phases
from leadline.records.json_object import JsonObject


class StepTimeline:
    """Sums up the time of each phase of the current step.

    A step lasts from the end of the previous step to its own end. **Data**: within ``next`` of a loader's iterator.
    **Backward**: within ``backward``. **Optimizer**: within ``step``. **Host**: from the end of the last of these, or
    from the beginning of the step, to the call of the model, where that is observed. **Forward**: from there to the
    next ``backward``; in an eval step to its end. Overhead within a phase is not part of it.

    **Ready time** - of the thread in each phase, at some steps: in the rest of the phase it waits.

    **One thread** - the one that ends the steps; the work of other threads is not part of the step.

    **Never fails on order** - a phase that was left by an exception begins again.
    """

    def __init__(
        self,
        own: OwnTime,
        imported_ns: int | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        thread_clock: ThreadClock | None = None,
        listener: StepListener | None = None,
    ) -> None:
        """
        Args:
            imported_ns: When the framework had been imported, if the import created this timeline.
            thread_clock: None: the clock of the calling thread.
        """
        self.facts: JsonObject = {}
        """Facts about the training: ``batch_size``, ``dataloader_workers``, ``device`` …"""
        self.clock, self._thread_clock = clock, thread_clock or ThreadClock()
        self._listener: StepListener = listener or NullListener()
        self.progress = StepProgress()
        self.own, self.is_in_past, self.is_loading = own, False, False
        """The overhead; whether deferred calls are made, by any thread; whether this one waits for data."""
        self._rows = StepRows(clock(), imported_ns, self._thread_clock)
        self._thread, self._has_stepped, self._is_in_model = self._rows.thread, False, False
        self._start_ns = 0
        """When the current step began; 0 before the first."""
        self._edge_ns = self._edge_own_ns = 0
        """When the last phase ended, and the overhead until then."""
        self._step_own_ns = self._forward_own_ns = self._compiled_ns = self._eval_end_ns = 0
        self._sums, self.sampled = PhaseSums(), SampledSteps()
        self._backward_ns = self._backward_own_ns = self._backward_ready_ns = 0
        self._update_ns = self._update_own_ns = self._update_ready_ns = self._data_ns = self._data_ready_ns = 0
        self._is_ready_timed = self.sampled.begin(0, clock(), 1)
        self._edge_ready_ns = 0
        """The thread's ready time at the edge."""
        self._eval: tuple[PhaseSums, int] | None = None
        self._loader: dict[str, int | None] = {}
        self._marks: Marks | None = None
        """The marks of the current step on its device; None if it is timed by the host's clock."""
        self._device: DeviceClock | None = None

    def open(self, sink: PhaseSink) -> None:
        """Write the times to ``sink`` from now on."""
        self._rows.open(sink)

    def time_on(self, device: DeviceClock) -> None:
        """Time the steps by the clock of the device that computes them asynchronously."""
        self._device = self._device or device

    @property
    def backwards(self) -> int:
        """Backward passes in the current step."""
        return self._sums.backwards

    def is_elsewhere(self) -> bool:
        """Return whether this is not the thread whose steps are timed, or it waits for data already."""
        return self.is_loading or (get_ident() != self._thread and (self._has_stepped or not self._is_own_thread()))

    def begin_loader(self, workers: int | None, batch_size: int | None) -> None:
        """Begin to create an iterator over a loader, until the next ``end_data``."""
        self._loader = {"dataloader_workers": workers, "batch_size": batch_size}
        if not self._has_stepped and not self._sums.backwards and self._eval is None:
            self._sums, self._start_ns = PhaseSums(), 0  # data was read before the training
        self.begin_data(is_batch=False)

    def begin_data(self, *, is_batch: bool = True) -> None:
        """Begin to wait for the next batch, or for the iterator over a loader."""
        now = self._data_ns = self.clock()
        self.progress.expect_batch(is_expected=is_batch)
        self._begin(now)
        if self._is_ready_timed:
            self._data_ready_ns = self._thread_clock()
        if self._eval is not None and not self._eval_end_ns:
            self._eval_end_ns = now
        if self._marks is not None:
            self._marks.begin(phases.DATA)

    def end_data(self) -> None:
        """End the wait: the batch has arrived, or the loader is exhausted."""
        begun, self._data_ns = self._data_ns, 0
        if not begun:
            return
        self.progress.arrive()
        now, sums = self.clock(), self._sums
        sums.data_at = sums.data_at or begun
        sums.data += now - begun
        sums.datas += 1
        if self._update_ns:
            sums.nesting |= step_sums.DATA_IN_OPTIMIZER
        if self._marks is not None:
            self._marks.end(phases.DATA)
        self._set_edge(now, self.own.until(now))
        if self._is_ready_timed:
            sums.data_ready += self._edge_ready_ns - self._data_ready_ns

    def exhaust(self) -> None:
        """Handle an exhausted loader: the training may end now."""
        if self._eval is None:
            self.progress.exhaust(has_computed=self._sums.backwards > 0)
            if self._has_stepped:
                self._listener.exhaust_loader()

    def add_own(self, spent_ns: int) -> None:
        """Add time in the current step, between its phases, that is overhead although it is not measured as such."""
        self._step_own_ns -= spent_ns

    def compiles(self) -> None:
        """Begin to compile a function."""
        self._compiled_ns = self.clock()

    def begin_model(self) -> None:
        """Begin the model's forward pass: what lies between the edge and now was other work of the host."""
        if self._backward_ns or self._update_ns or self._eval is not None:
            return
        self.progress.compute()
        now = self.clock()
        self._begin(now)
        self._end_host(now)

    def _end_host(self, now: int) -> None:
        sums, own = self._sums, self.own.until(now)
        start = max(self._edge_ns, self._start_ns)
        spent = own - self._edge_own_ns
        sums.host_at = sums.host_at or start
        sums.host += max(now - start - spent, 0)
        sums.hosts += 1
        if self._is_ready_timed:
            before, self._edge_ready_ns = self._edge_ready_ns, self._thread_clock()
            sums.host_ready += max(self._edge_ready_ns - before - spent, 0)
        if self._rows.calls.totals:
            self._rows.calls.assign(phases.HOST, start)
        if self._marks is not None:
            self._marks.end_host()
        self._edge_ns, self._edge_own_ns, self._is_in_model = now, own, True

    def end_forward(self, forward_own_ns: int = 0, forward_begun_ns: int = 0) -> None:
        """End the forward pass: a backward pass is about to begin.

        Args:
            forward_own_ns: The overhead in the step's forward pass, which is not counted elsewhere yet.
            forward_begun_ns: When the forward pass began, if it was watched.
        """
        if get_ident() != self._thread and not self._is_own_thread():
            return
        self.progress.compute()
        now = self.clock()
        if not self._start_ns:
            self._begin(forward_begun_ns or self._compiled_ns or now)
        sums, own = self._sums, self.own.until(now)
        spent = own - self._edge_own_ns + max(forward_own_ns - self._forward_own_ns, 0)
        self._forward_own_ns = forward_own_ns
        start = max(self._edge_ns, self._start_ns)
        sums.forward_at = sums.forward_at or start
        sums.forward += max(now - start - spent, 0)
        sums.forwards += 1
        if self._update_ns:
            sums.nesting |= step_sums.FORWARD_IN_OPTIMIZER
        if self._is_ready_timed:
            before, self._edge_ready_ns = self._edge_ready_ns, self._thread_clock()
            sums.forward_ready += max(self._edge_ready_ns - before - spent, 0)
        if self._rows.calls.totals:
            self._rows.calls.assign(phases.FORWARD, start)
        if self._marks is not None:
            self._marks.end_forward()
        self._edge_ns, self._edge_own_ns, self._is_in_model = now, own, False

    def begin_backward(self) -> None:
        """Begin the backward pass, after ``end_forward``."""
        if get_ident() == self._thread or self._is_own_thread():
            now = self._backward_ns = self.clock()
            self._backward_own_ns = self.own.until(now)
            if self._is_ready_timed:
                self._backward_ready_ns = self._thread_clock()

    def end_backward(self) -> int:
        """End the backward pass; return its duration, 0 if unknown."""
        begun, self._backward_ns = self._backward_ns, 0
        if not begun or (get_ident() != self._thread and not self._is_own_thread()):
            return 0
        now, sums = self.clock(), self._sums
        own = self.own.until(now)
        took = max(now - begun - own + self._backward_own_ns, 0)
        sums.backward_at = sums.backward_at or begun
        sums.backward += took
        sums.backwards += 1
        if self._update_ns:
            sums.nesting |= step_sums.BACKWARD_IN_OPTIMIZER
        if self._marks is not None:
            self._marks.end(phases.BACKWARD)
        self._set_edge(now, own)
        if self._is_ready_timed:
            sums.backward_ready += min(self._edge_ready_ns - self._backward_ready_ns, took)
        return took

    def begin_update(self) -> None:
        """Begin the step of an optimizer, or of a gradient scaler around it."""
        if self._update_ns or (get_ident() != self._thread and not self._is_own_thread()):
            return
        self.progress.compute()
        now = self.clock()
        if not self._start_ns:
            self._begin(self._compiled_ns or now)
        self._update_ns, self._update_own_ns = now, self.own.until(now)
        if self._marks is not None:
            self._marks.begin(phases.OPTIMIZER)
        self._set_edge(now, self._update_own_ns)
        self._update_ready_ns = self._edge_ready_ns

    def end_update(self) -> None:
        """End the step of the optimizer."""
        begun, self._update_ns = self._update_ns, 0
        if not begun or (get_ident() != self._thread and not self._is_own_thread()):
            return
        now, sums = self.clock(), self._sums
        sums.optimizer_at = sums.optimizer_at or begun
        own = self.own.until(now)
        took = max(now - begun - own + self._update_own_ns, 0)
        sums.optimizer += took
        sums.optimizers += 1
        if self._backward_ns:
            sums.nesting |= step_sums.OPTIMIZER_IN_BACKWARD
        if self._marks is not None:
            self._marks.end(phases.OPTIMIZER)
        self._set_edge(now, own)
        if self._is_ready_timed:
            sums.optimizer_ready += min(self._edge_ready_ns - self._update_ready_ns, took)

    def leave_update(self) -> None:
        """Discard the step of an optimizer that was left by an exception."""
        self._update_ns = 0

    def collective(self, begun_ns: int, op: str, group: str, size: int | None) -> None:
        """Add a collective; ``size`` is the bytes of this rank, None if they are not known."""
        self._add_call((phases.COLLECTIVE, op, group), begun_ns, size)

    def reduction(self, waited_ns: int, group: str, size: int) -> None:
        """Add the wait for other ranks at the end of the backward pass that has just ended."""
        call = CallKey(phases.COLLECTIVE, "reduction", group, phases.BACKWARD)
        self._rows.calls.add(call, self._edge_ns - waited_ns, waited_ns, size)

    def call(self, phase: str, begun_ns: int, size: int | None = None) -> None:
        """Add a call: a checkpoint, or that of a function which does all of a step."""
        self._add_call((phase, "", ""), begun_ns, size)
        if not self._backward_ns and not self._update_ns and self._eval is None:
            now = self.clock()
            self._set_edge(now, self.own.until(now))
            if self._marks is not None:
                self._marks.cut()

    def _add_call(self, key: tuple[str, str, str], begun_ns: int, size: int | None) -> None:
        if get_ident() != self._thread and not self._is_own_thread():
            return
        now = self.clock()
        if now < begun_ns:
            return
        since = {phases.OPTIMIZER: self._update_ns, phases.BACKWARD: self._backward_ns, phases.DATA: self._data_ns}
        within = next((phase for phase, since_ns in since.items() if since_ns), "")
        self._rows.calls.add(CallKey(*key, within), begun_ns, now - begun_ns, size)

    def begin_eval(self) -> None:
        """Begin an eval step; the wait for data since the last step is part of it."""
        if get_ident() != self._thread and not self._is_own_thread():
            return
        now = self.clock()
        self._begin(now)
        if not self._is_in_model:
            self._end_host(now)
        self._eval, self._sums = (self._sums, max(self._edge_ns, self._start_ns)), PhaseSums()
        self._eval_end_ns = 0
        self._marks = None

    def discard_eval(self) -> None:
        """Discard the eval step: its forward pass was that of a train step."""
        if self._eval is None:
            return
        (before, _), self._eval = self._eval, None
        before.add(self._sums)
        self._sums, self._eval_end_ns = before, 0

    def end_eval(self, step: int, mode: str, forward_own_ns: int, mode_step: int = UNKNOWN) -> None:
        """End the eval step: at the last wait for data since, or now."""
        if self._eval is None:
            return
        (sums, start), self._eval = self._eval, None
        now = self.clock()
        end = self._eval_end_ns or now
        sums.forward_at, sums.forwards = start, 1
        sums.forward = max(end - start - forward_own_ns, 0)
        if self._rows.calls.totals:
            self._rows.calls.assign(phases.FORWARD, start)
        own = self.own.until(now)
        self._put(step, mode, sums, end, own, mode_step)
        if not self._sums.datas:
            self._edge_ns, self._edge_own_ns, self._is_in_model = now, own, False
        self._next(end, step)

    def end_step(self, step: int, mode_step: int = UNKNOWN) -> None:
        """End a train step."""
        if self._eval is not None:
            self.discard_eval()
        now = self.clock()
        sums, self._sums = self._sums, PhaseSums()
        if not self._start_ns or (get_ident() != self._thread and not self._is_own_thread()):
            self._thread = self._rows.take_thread()
            self._start_ns = self._start_ns or now
        if not self._has_stepped:
            self._rows.put_initialization(step, self._start_ns, now)
            self._has_stepped = True
        if self._marks is not None:
            self._marks.close()
        own = self.own.until(now)
        self._put(step, "train", sums, now, own, mode_step)
        if sums.datas and "dataloader_workers" not in self.facts:
            self.facts |= {name: value for name, value in self._loader.items() if value is not None}
        self._backward_ns = self._update_ns = self._forward_own_ns = 0
        self._is_ready_timed = self.sampled.begin(step + 1, now, self._rows.sampler.every)
        self._next(now, step)
        self._set_edge(now, own)

    def finish(self, step: int) -> None:
        """End the training, and possibly the process.

        Args:
            step: The last step.
        """
        self._rows.drain()
        if self._has_stepped:
            self._rows.put_finalization(step, self._start_ns, self.clock())

    def poll(self) -> None:
        """Write the times of steps whose end the device has passed."""
        self._rows.poll()

    def _put(self, step: int, mode: str, sums: PhaseSums, end_ns: int, own_ns: int, mode_step: int) -> None:
        ready_ns = self._thread_clock() if self._is_ready_timed and mode == "train" else UNKNOWN
        if ready_ns != UNKNOWN and not sums.nesting and self.facts.get("device") == "cpu":
            sums.nesting = phases.HAS_READY
        own_ns, self._step_own_ns = own_ns - self._step_own_ns, own_ns
        put, start, marks = self._rows.put, self._start_ns, self._marks
        put(step, mode, sums, mode_step, start_ns=start, end_ns=end_ns, own_ns=own_ns, ready_ns=ready_ns, marks=marks)

    def _next(self, begin_ns: int, step: int) -> None:
        """Begin the next step; whether it is timed on the device depends on its number."""
        self._start_ns = begin_ns
        device = self._device
        if device is not None:
            closed, self._marks = self._marks, None
            if self._rows.sampler.chooses(step + 1):
                self._marks = Marks(device, closed.last if closed is not None else device.mark())

    def _is_own_thread(self) -> bool:
        """Return whether this thread, which is another than before, is timed from now on, or makes deferred calls."""
        if not self._has_stepped:
            self._thread = self._rows.take_thread()
        return not self._has_stepped or self.is_in_past

    def _begin(self, now_ns: int) -> None:
        if not self._start_ns:
            self._start_ns = now_ns
            self._listener.begin_training()
            self._set_edge(now_ns, self.own.until(now_ns))

    def _set_edge(self, now_ns: int, own_ns: int) -> None:
        self._edge_ns, self._edge_own_ns, self._is_in_model = now_ns, own_ns, False
        if self._is_ready_timed:
            self._edge_ready_ns = self._thread_clock()
