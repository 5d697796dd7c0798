"""The step recorder: captures what is scheduled at each train step, and ends the steps."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from leadline.frameworks.adapter import Score, Trained, trained_by
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.frameworks.pending import PendingNumbers
from leadline.instrumentation.step_context import StepContext
from leadline.instrumentation.timeline.deferred_calls import DeferredCalls
from leadline.instrumentation.timeline.step_clock import NullListener, StepListener
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.records.names import Family
from leadline.records.plan import CaptureItem, CapturePlan, may_select_family
from leadline.records.series import StepStamp
from leadline.store.writer import Writer
from leadline.training.recorder.budget import Budget
from leadline.training.recorder.control_requests import ControlRequests
from leadline.training.recorder.eval_recorder import EvalRecorder
from leadline.training.recorder.fact_steps import FactSteps
from leadline.training.recorder.given_values import GivenValues
from leadline.training.recorder.logged_rows import LoggedRows
from leadline.training.recorder.mode_schedules import PlanSchedules
from leadline.training.recorder.non_finite_loss import NonFiniteLoss
from leadline.training.recorder.overhead import Overhead
from leadline.training.recorder.scalars import Scalar, ScalarBuffer
from leadline.training.recorder.schedule import CaptureSchedule, StepDecision
from leadline.training.recorder.step_output import StepOutput
from leadline.training.recorder.update_capture import UpdateCapture, Watched

_LOSSES_NAMED_STEPS: Final = 2
"""So many first steps of a process are watched to learn the names of losses, as are those of trainings with facts."""


class StepRecorder:
    """See ``leadline.frameworks.adapter.StepCallbacks``.

    Args:
        open_writer: Opens the worker's writer; called at the first step, so that processes that never train leave no
            trace.
        listener: Follows the steps while a profile window is open or pending.
        imported_ns: When the framework had been imported, if the import created this recorder.
        roles: The roles of logged metrics by name, in addition to those that are known.

    Attributes:
        cost: The overhead so far.
        budget: The overhead budget; None: no limit.
        watched_models: The model of every optimizer that has stepped, and the optimizer's class.
    """

    def __init__(
        self,
        context: StepContext,
        plan: CapturePlan,
        frameworks: LoadedAdapters,
        control: ControlRequests,
        open_writer: Callable[[], Writer],
        *,
        listener: StepListener | None = None,
        imported_ns: int | None = None,
        roles: Mapping[str, str] | None = None,
    ) -> None:
        self.cost = Overhead()
        self.listener: StepListener = listener or NullListener()
        self.timeline = StepTimeline(self.cost, imported_ns, listener=self.listener)
        self.watched_models: list[Trained] = []
        self.clock, self.facts = context.clock, context.facts
        self._clipped = self.facts.of("norms of clipping are")
        self._settings = self.facts.of("settings of optimizers are")
        self._context, self._frameworks, self._control = context, frameworks, control
        self.has_request = control.has_pending
        self.budget = None if plan.budget is None else self._make_budget(plan.budget)
        self._schedules = schedules = PlanSchedules(plan, frameworks.captures_between_steps, self.budget)
        self._scalars = scalars = ScalarBuffer(frameworks)
        self._output = StepOutput(
            context, frameworks, schedules, scalars, overhead=self.cost, timeline=self.timeline, open_writer=open_writer
        )
        self.evaluation = EvalRecorder(
            context,
            schedules,
            scalars,
            self._output,
            control,
            overhead=self.cost,
            timeline=self.timeline,
            listener=self.listener,
        )
        self.rows = LoggedRows(context, scalars, self._output, self.timeline.progress)
        self.given = GivenValues(
            self.clock, scalars, self._output, self.facts, frameworks.number, roles or {}, self.rows
        )
        self._updates = UpdateCapture(context, self._output, self.cost, self.budget, plan.device_bytes)
        self.wants_loss = StepDecision(self.clock, lambda: schedules.of("train").losses)
        self.wants_gradient_norms = StepDecision(self.clock, lambda: schedules.of("train").norms)
        self.wants_checks = StepDecision(self.clock, lambda: schedules.of("train").checks)
        self.captures_checks, self.ends_steps = schedules.has_checks, self.clock.is_owner
        self.deferred = DeferredCalls(self.cost, self.timeline, self.clock)
        self.record_checks, self.record_event, self.note = scalars.add_checks, context.record_event, context.note
        self._fact_steps = FactSteps(self.clock, context.trainings)
        self._has_trained = False
        self._interesting_step = 0
        """At train steps before this nothing of the plan is captured, except losses and logged values."""
        self._non_finite = NonFiniteLoss(context, schedules, frameworks, self._output)
        self._watched: weakref.WeakKeyDictionary[Any, Watched] = weakref.WeakKeyDictionary()
        self._is_forward_watched = False
        self._forward_items: tuple[CaptureItem, ...] = ()

    def _make_budget(self, share: float) -> Budget:
        return Budget(
            share,
            self.cost,
            step=lambda: self.clock.step,
            is_distributed=self._frameworks.is_distributed,
            captures_together=self._frameworks.captures_together,
        )

    @property
    def losses(self) -> dict[str, float]:
        """The latest value of each loss of the training; without one, of another mode."""
        return self._scalars.latest_losses

    def optimizers(self) -> list[Any]:
        """Return the live optimizers that have stepped."""
        return list(self._watched)

    def change_plan(self, plan: CapturePlan, *, is_prompt: bool = True) -> None:
        """Capture another plan from now on: a framework was imported, or a rule was added.

        What was captured of the current step before is kept.

        Args:
            is_prompt: Whether everything is captured at once, and not when its schedule says so.
        """
        was_watched, self._is_forward_watched = self._is_forward_watched, False
        self._schedules.change(plan)
        if not is_prompt:
            self._schedules.continue_from(dict(self.clock.finished))
            for decision in (self.wants_loss, self.wants_gradient_norms, self.wants_checks):
                decision.renew()
        self._output.extend_last_step()
        self.evaluation.change_plan()
        self._watched.clear()
        self._interesting_step = 0
        before = self._forward_items
        self.begin_step()
        if was_watched and not self._is_forward_watched:
            self._forward_items = before
            self._end_forwards(self.clock.stamp())

    def log(self, values: Mapping[str, Any], collection: str = "scalars", marks: tuple[str, ...] = ()) -> int:
        """See ``StepCallbacks.log``; trackers call it without the session's guard."""
        self.deferred.stop()
        return self.given.log(values, collection, marks)

    # --- callbacks ----------------------------------------------------------------------------------------

    def has_loss_facts(self) -> bool:
        return self._schedules.has_loss_facts and self._fact_steps.are_left()

    def loss_facts_step(self, *, in_later_trainings: bool = False) -> int | None:
        return self._fact_steps.take(in_later_trainings) if self._schedules.has_loss_facts else None

    def record_loss(self, site: object, value: Any, name: str | None = None, marks: tuple[str, ...] = ()) -> None:
        begun = self.cost.begin()
        self._add_loss(site, value, name, marks)
        self.cost.end(begun)

    def record_scores(self, scores: Sequence[Score]) -> None:
        begun = self.cost.begin()
        wants_loss = self.wants_loss()
        for name, value, is_loss, marks in scores:
            if not is_loss:
                self._scalars.log(name, Scalar("metrics", (value,), marks))
            elif wants_loss:
                self._add_loss(name, value, name, marks)
        self.cost.end(begun)

    def _add_loss(self, site: object, value: Any, name: str | None, marks: tuple[str, ...]) -> None:
        if self._non_finite.step < 0 and isinstance(value, float) and value - value != 0.0:
            self._non_finite.find(self._forward_items if self._is_forward_watched else ())
        self._scalars.train_losses.add(site, value, name, marks)

    def capture_last_step(self, family: Family) -> None:
        """Capture what a schedule with an interval would capture later, but not steps that are listed."""
        recurring = self._schedules.of("train").forward.recurring(self.clock.train_step)
        before = self._forward_items if self._is_forward_watched else ()
        of_family = (item for item in recurring if may_select_family(item, (family,)))
        items = tuple(dict.fromkeys((*before, *of_family)))
        if items != before:
            self._frameworks.watch_forward(items)
            self._is_forward_watched, self._forward_items = True, items

    def begin_training(self, owner: object) -> bool:
        return self.clock.claim(owner)

    def end_training(self, owner: object) -> None:
        self.clock.release(owner)

    def begin_another_training(self, owner: object) -> None:
        if self._context.trainings:
            self._context.begin_training(owner)

    def before_update(self, optimizer: Any) -> None:
        if self.evaluation.stamp is not None:
            self._frameworks.end_evaluation()
        begun = self.cost.begin()
        if self.clock.is_owner(optimizer):
            self._output.complete_step()
        if not self._has_trained:
            self._begin_training(optimizer)
        queue = self._output.queue
        if queue is not None:
            queue.poll(self.clock.step)
        watched = self._watched.get(optimizer) or self._watch(optimizer)
        if self._schedules.has_norms and watched.subject is not None:
            norms = self._clipped.call(watched.subject.clipped)
            if norms:
                self._scalars.add_norms(norms)
        step = self.clock.train_step
        items = watched.schedule.advance_to(step) if step >= self._interesting_step else ()
        if step == self._non_finite.step:
            items = tuple(dict.fromkeys((*items, *self._schedules.non_finite_items)))
        if items and watched.subject is not None:
            if not watched.subject.is_current():
                watched = self._watch(optimizer, watched.schedule)
            self._updates.begin(watched, items)
        self.cost.end(begun)
        if not self.listener.is_idle:
            self.listener.mark("optimizer")

    def _begin_training(self, optimizer: Any) -> None:
        """Begin the first train step of this process; in a resumed run, continue the count of the steps."""
        self._has_trained = True
        counted = self.facts.of("the number of steps that the optimizer has counted is")
        if self._context.place(counted.call(self._frameworks.steps_before, optimizer)):
            self._schedules.continue_from(self.clock.finished)
        if self.captures_checks():
            self.record_checks(self._context.resumption.checks())

    def after_update(self, optimizer: Any, *, is_skipped: Any, is_part: bool = False) -> None:
        begun = self.cost.begin()
        skipped = is_skipped if isinstance(is_skipped, bool) else self._skipped(is_skipped)
        watched = self._watched.get(optimizer)
        if watched is None:
            self._watch(optimizer)
        elif watched.running:
            self._updates.end(watched, skipped)
        if is_part:
            self.cost.end(begun)
            return
        self.timeline.progress.end()
        if skipped is not False and self._output.queue is not None:
            self._output.queue.put_skipped(type(optimizer).__name__, self.clock.stamp(), skipped)
        ends_step = self.clock.owns(optimizer)
        if ends_step:
            self._end_step()
        self.cost.end(begun)
        self._control.handle_pending(self.clock.step - 1)
        if ends_step and not self.listener.is_idle:
            self.listener.begin_step(self.clock.step)

    def _skipped(self, is_skipped: Any) -> bool | bytes | PendingNumbers:
        row = self.facts.of("whether a gradient scaler skips a step is").call(self._frameworks.row, [is_skipped])
        return False if row is None else row

    def items_within(self, optimizer: Any, steps: int) -> tuple[CaptureItem, ...]:
        end = self.clock.train_step + steps
        forward = self._schedules.of("train").forward.items_before(end)
        watched = self._watched.get(optimizer)
        return (*forward, *(watched.schedule.items_before(end) if watched else self._schedules.tensor_items))

    def defer_loss_only_steps(self) -> None:
        self.deferred.allow(self._loss_only_steps())

    def after_loss_only_update(self, optimizer: Any) -> None:
        self.timeline.progress.end()
        if self.clock.owns(optimizer):
            self._end_step()

    def begin_step(self) -> None:
        """Begin a step: watch its forward pass where that is scheduled, or where losses are not named yet."""
        step = self.clock.train_step
        is_first = self.clock.train_steps_here < _LOSSES_NAMED_STEPS or self.has_loss_facts()
        self.cost.measures_all = step >= self._interesting_step or is_first
        if not self.cost.measures_all:
            return
        items = self._schedules.of("train").forward.advance_to(step)
        if items or is_first:
            self._frameworks.watch_forward(items, by_all=is_first)
            self._is_forward_watched, self._forward_items = True, items

    # --- calls from the session ---------------------------------------------------------------------------

    def set_mode(self, mode: str, *, is_announced: bool = True) -> str:
        """Set the mode of the steps without an optimizer; return the previous one.

        Args:
            is_announced: Whether steps of this mode follow, so that values that are logged now are of the next one.
        """
        before, self.clock.named = self.clock.named or "train", None if mode == "train" else mode
        self._frameworks.set_mode(is_evaluation=mode != "train")
        if is_announced and mode != before:
            self.given.close_step()
        return before

    def open(self) -> None:
        """Open the worker's streams, if they are not open yet."""
        self._output.open()

    def drain(self) -> None:
        """Pass everything that was captured on to the writer."""
        self._output.complete_step()
        if self._output.queue is not None:
            self._output.queue.drain()

    def complete_overdue_step(self) -> None:
        """Pass on what was captured of the last step if nothing has followed it for long; in the writer's thread."""
        self._output.complete_overdue_step()

    def finish(self) -> None:
        """End the training: scalars that wait for the end of a step are written at the last step."""
        self._control.close()
        self._frameworks.end_step()
        self.evaluation.is_finished = True
        if self.evaluation.stamp is not None:
            self._frameworks.end_evaluation()
        norms = self._scalars.take_norms()
        if norms:
            self._output.put_scalars(self.clock.stamp(), norms)  # of an optimizer that stepped after the clock's owner
        if not self.clock.finished:
            self._scalars.withdraw_all_printed()  # a process without a step leaves no trace by what it prints
        self.rows.finish()
        self._output.flush_logged()
        self.timeline.finish(self.clock.last_stamp().step)
        self.drain()

    # --- capture of an optimizer --------------------------------------------------------------------------

    def _watch(self, optimizer: Any, schedule: CaptureSchedule | None = None) -> Watched:
        schedule = schedule or self._schedules.of_optimizer()
        fact = self.facts.of("an optimizer, with all that it updates, is", is_vital=True)
        watched = self._watched[optimizer] = Watched(fact.call(self._frameworks.subject, optimizer), schedule)
        subjects = [other.subject for other in self._watched.values() if other.subject is not None]
        self.watched_models = [trained_by(subject) for subject in subjects]
        self._interesting_step = 0
        self._output.open()
        return watched

    # --- the end of a step --------------------------------------------------------------------------------

    def _end_step(self) -> None:
        stamp, output = self.clock.stamp(), self._output
        items = self._forward_items if self._is_forward_watched else ()
        if self._is_forward_watched:
            self._end_forwards(stamp)
        scalars: dict[str, Scalar] = {}
        is_interesting = stamp.mode_step >= self._interesting_step
        if is_interesting and self._schedules.of("train").settings.advance_to(stamp.mode_step):
            scalars |= self._hyperparameters()
        losses = None if scalars or self._scalars.has_logged() else self._scalars.take_loss_row()
        if losses is None:
            scalars = self._scalars.take_train_step() | scalars
        output.end_step(stamp, scalars, losses, items=items, wants_loss=lambda: self.wants_loss.at(stamp.mode_step))
        is_alone = len(self._watched) == 1 and self.clock.train_steps_here >= _LOSSES_NAMED_STEPS
        self.timeline.progress.on_computation = output.complete_step if is_alone else None
        if is_interesting:
            self._interesting_step = self._next_interesting_step()
        self.begin_step()
        self.timeline.end_step(stamp.step, stamp.mode_step)

    def _end_forwards(self, stamp: StepStamp) -> None:
        """End the capture of forward passes, and write what was captured."""
        self._is_forward_watched = False
        for forward in self._frameworks.end_forwards():
            self._output.put_forward(forward, stamp, self._forward_items)

    def _loss_only_steps(self) -> int:
        """Return how many of the next steps capture nothing but losses, and need no time of the thread."""
        step, schedules = self.clock.step, self._schedules.of("train")
        is_plain = self.timeline.facts.get("device") == "cpu" and self.listener.is_idle
        if self.clock.train_steps_here < _LOSSES_NAMED_STEPS or not is_plain or self.evaluation.stamp is not None:
            return 0
        interesting = min(self._interesting_step, schedules.checks.next_step) - self.clock.train_step
        return max(min(interesting, self.timeline.sampled.steps_until_next(step)), 0)

    def _next_interesting_step(self) -> int:
        schedules = self._schedules.of("train")
        of_optimizers = [watched.schedule.next_step for watched in self._watched.values()]
        return min(schedules.forward.next_step, schedules.settings.next_step, *of_optimizers)

    def _hyperparameters(self) -> dict[str, Scalar]:
        return {
            name: Scalar("hyperparameters", (value,))
            for watched in self._watched.values()
            if watched.subject is not None
            for name, value in (self._settings.call(watched.subject.hyperparameters) or {}).items()
        }
