"""Recording of eval steps."""

from __future__ import annotations

from leadline.frameworks.adapter import Forward
from leadline.instrumentation.step_context import StepContext
from leadline.instrumentation.timeline.step_clock import StepListener
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.records.plan import CaptureItem
from leadline.records.series import StepStamp
from leadline.training.recorder.control_requests import ControlRequests
from leadline.training.recorder.mode_schedules import PlanSchedules
from leadline.training.recorder.overhead import Overhead
from leadline.training.recorder.scalars import ScalarBuffer
from leadline.training.recorder.step_output import StepOutput


class EvalRecorder:
    """See ``leadline.frameworks.adapter.EvalCallbacks``.

    Attributes:
        stamp: The current eval step; None between eval steps.
        is_finished: Whether the training is over: requests and listeners no longer matter.
    """

    def __init__(
        self,
        context: StepContext,
        schedules: PlanSchedules,
        scalars: ScalarBuffer,
        output: StepOutput,
        control: ControlRequests,
        *,
        overhead: Overhead,
        timeline: StepTimeline,
        listener: StepListener,
    ) -> None:
        self.stamp: StepStamp | None = None
        self.is_finished = False
        self._context, self._clock = context, context.clock
        self._schedules, self._scalars, self._output = schedules, scalars, output
        self._control = control
        self._overhead = overhead
        self._timeline = timeline
        self._listener = listener
        self._items: tuple[CaptureItem, ...] = ()
        self._captures_losses = False
        self._joined: Forward | None = None
        """What the script itself passes in the current step, beside an adapter that evaluates."""
        self._discarded: tuple[str, int] | None = None
        """Mode and step of the step discarded last, whose schedules have advanced already."""

    def join_step(self, forward: Forward, mode: str) -> tuple[CaptureItem, ...]:
        items = self._items if self.stamp is not None else self.begin_step(mode)
        self._joined = forward
        return items

    def begin_step(self, mode: str = "eval") -> tuple[CaptureItem, ...]:
        if self.stamp is not None and self._joined is not None:
            return self._items  # begun by what the script passed before
        begun = self._overhead.begin()
        self._output.complete_step()
        self._timeline.progress.compute()
        self._timeline.begin_eval()
        stamp = self.stamp = self._clock.stamp(self._clock.named or mode)
        if self._discarded != (stamp.mode, stamp.mode_step):
            schedules = self._schedules.of(stamp.mode)
            self._captures_losses = bool(schedules.losses.advance_to(stamp.mode_step))
            self._items = schedules.forward.advance_to(stamp.mode_step)
        self._overhead.end(begun)
        return self._items

    def change_plan(self) -> None:
        """Capture in the rest of the current step what a changed plan schedules for it."""
        if self.stamp is not None:
            schedules = self._schedules.of(self.stamp.mode)
            now = schedules.forward.advance_to(self.stamp.mode_step)
            self._items = tuple(dict.fromkeys((*self._items, *now)))
            wants_loss = bool(schedules.losses.advance_to(self.stamp.mode_step))
            self._captures_losses = self._captures_losses or wants_loss

    def mode(self) -> str:
        return self.stamp.mode if self.stamp is not None else self._clock.named or "eval"

    def record_loss(self, name: str | None, value: object) -> None:
        if self.stamp is not None and self._captures_losses:
            name = name or self._scalars.train_losses.only_name() or "loss"
            self._scalars.losses_of(self.stamp.mode).add(name, value, name)

    def discard_step(self) -> None:
        if self.stamp is not None:
            self._scalars.losses_of(self.stamp.mode).take()
            self._discarded = self.stamp.mode, self.stamp.mode_step
            self.stamp = self._joined = None
            self._timeline.discard_eval()

    def end_step(self, forward: Forward) -> None:
        if self._context.resumption.is_awaiting_step:
            self._context.note("evaluation before the first train step of a resumed run is not recorded")
            self.discard_step()
        stamp, self.stamp = self.stamp, None
        joined, self._joined = self._joined, None
        if stamp is None:
            return
        begun = self._overhead.begin()
        self._output.open()
        self._timeline.end_eval(stamp.step, stamp.mode, forward.own_ns, stamp.mode_step)
        self._output.put_forward(forward, stamp, self._items)
        if joined is not None and joined is not forward:
            self._output.put_forward(joined, stamp, self._items)
        scalars = self._scalars.losses_of(stamp.mode).take()
        captures_losses = self._captures_losses
        self._output.end_step(stamp, scalars, items=self._items, wants_loss=lambda: captures_losses)
        self._timeline.progress.on_computation = self._output.complete_step
        self._overhead.end(begun)
        if self.is_finished:
            return
        self._control.handle_pending(self._clock.step - 1)
        if not self._listener.is_idle:
            self._listener.begin_step(self._clock.step, stamp.mode)
