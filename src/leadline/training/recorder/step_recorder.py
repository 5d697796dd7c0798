"""The recorder: hears what a training does, captures what is due, and ends the steps."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.frameworks.adapter import Forward, Program, Subject
from leadline.frameworks.installed import Frameworks
from leadline.frameworks.scores import Scores
from leadline.records.event import Event
from leadline.records.names import (
    CHECKS,
    GRADIENT_NORMS,
    SCALAR_COLLECTIONS,
    TREE_COLLECTIONS,
    Family,
    is_module_collection,
)
from leadline.records.plan import CaptureItem, CapturePlan, is_of_family, is_of_mode
from leadline.records.series import SeriesLayout, StepStamp
from leadline.store.tensors import CaptureForm, TensorCapture
from leadline.store.writer import Writer
from leadline.training.pending import PendingNumbers
from leadline.training.recorder.budget import Budget
from leadline.training.recorder.control_requests import ControlRequests
from leadline.training.recorder.metric_rows import MetricRow, metric_row
from leadline.training.recorder.mode_schedules import WITH_NORMS, ModeSchedules, schedules_for
from leadline.training.recorder.overhead import Overhead
from leadline.training.recorder.scalars import LossBuffer, Scalar, ScalarRows
from leadline.training.recorder.schedule import CaptureSchedule
from leadline.training.recorder.write_queue import WriteQueue
from leadline.training.timeline.listener import NullListener, StepListener
from leadline.training.timeline.step_clock import StepClock
from leadline.training.timeline.step_timeline import StepTimeline

_NAMED_BY_STEP = 2
"""Until this step forward passes are watched to learn what losses are called; a second optimizer's come in step 1."""
_EVERYTHING = (CaptureItem(),)
_COUNTS = frozenset({"nan_count", "nonfinite_count"})


@dataclass(slots=True)
class _Watched:
    """An optimizer, what it updates, and the programs made for it."""

    subject: Subject
    due: CaptureSchedule
    programs: dict[tuple[int, ...], Program | None] = field(default_factory=dict)
    running: Program | None = None
    stamp: StepStamp | None = None
    captured: tuple[CaptureItem, ...] = ()
    """What ``running`` captures."""


class Recorder:
    """See ``leadline.frameworks.adapter.StepCallbacks``.

    Args:
        open_writer: Makes the worker's writer; called at the first step, so that processes that never train
            leave no trace.
        imported_ns: When the framework had been imported, where that is when this was made.
    """

    def __init__(
        self,
        plan: CapturePlan,
        adapter: Frameworks,
        control: ControlRequests,
        open_writer: Callable[[], Writer],
        imported_ns: int | None = None,
    ) -> None:
        self.cost = Overhead()
        self.timeline = StepTimeline(self.cost, imported_ns)
        self.listener: StepListener = NullListener()
        self.notes: list[str] = []
        self.watching: list[tuple[str, str, int]] = []
        """Model, optimizer and number of parameters of all that were watched when the last of them came."""
        self.clock = StepClock(self._tell_owner)
        self.writer: Writer | None = None
        self._adapter = adapter
        self._control = control
        self._open_writer = open_writer
        self._device_bytes = plan.device_bytes
        self._take_in(plan)
        self._alarmed_step = -1
        """The first train step whose loss was not finite: what counts such elements looks at it, whatever is due."""
        self._watched: weakref.WeakKeyDictionary[Any, _Watched] = weakref.WeakKeyDictionary()
        self._counts: dict[int, tuple[SeriesLayout, tuple[int, ...]]] = {}
        self._is_forward_watched = False
        self._forwarded: tuple[CaptureItem, ...] = ()
        self._loss_step = -1
        self._is_loss_due = self._is_eval_loss_due = False
        self._losses: dict[str, LossBuffer] = {}
        self._scalars: dict[str, Scalar] = {}
        self._norm_step = -1
        self._is_norm_due = False
        self._norms: dict[str, Scalar] = {}
        self._check_step = -1
        self._is_check_due = False
        self._checks: dict[str, Scalar] = {}
        self._outbox: WriteQueue | None = None
        self._script_names: set[str] = set()
        self._accuracies: dict[str, Scalar] = {}
        self._accuracy_names: set[str] = set()
        self._rows = ScalarRows()
        self._scored: Scores | None = None
        """What the step under way was told of as scores."""
        self._plain: MetricRow | None = None
        self._last: StepStamp | None = None
        self._last_names: frozenset[str] = frozenset()
        self._evaluating: StepStamp | None = None
        self._is_finished = False

    def _take_in(self, plan: CapturePlan) -> None:
        self.budget = Budget(plan)
        self._tensor_items = [
            item for item in self.budget.items if _selects_parameters(item) and is_of_mode(item, "train")
        ]
        self._counting = [item for item in self._tensor_items if _COUNTS & set(item.statistics)]
        self._has_norms = any(item.collection in WITH_NORMS for item in plan.items)
        self._dues: dict[str, ModeSchedules] = {}

    def follow(self, plan: CapturePlan) -> None:
        """A framework came whose wishes had been left out, or a rule: from here on this is the plan."""
        if self._is_forward_watched:
            self._is_forward_watched = False
            self._adapter.end_forwards()
        thinned = self.budget.thinned
        self._take_in(plan)
        self.budget.thinned.update(thinned)  # what was left out stays left out, whatever is captured from now on
        self._watched.clear()
        self._plain = None
        self.begin_step()

    @property
    def losses(self) -> dict[str, float]:
        """The latest value of each loss of the training; without one, of what there was instead."""
        found = self._losses.get("train") or next(iter(self._losses.values()), None)
        return found.latest if found is not None else {}

    @property
    def optimizers(self) -> list[Any]:
        """Those that were seen to step and are still there."""
        return list(self._watched)

    def note(self, line: str) -> None:
        """Keep a line about something that is not captured, once."""
        if line not in self.notes:
            self.notes.append(line)

    # --- probes -------------------------------------------------------------------------------------------

    def wants_loss(self) -> bool:
        step = self.clock.mode_step("train")
        if self._loss_step != step:
            self._loss_step = step
            self._is_loss_due = bool(self._dues_of("train").losses.at(step))
        return self._is_loss_due

    def wants_gradient_norms(self) -> bool:
        step = self.clock.mode_step("train")
        if self._norm_step != step:
            self._norm_step = step
            self._is_norm_due = bool(self._dues_of("train").norms.at(step))
        return self._is_norm_due

    def has_checks(self) -> bool:
        return any(item.collection == CHECKS for item in self.budget.items)

    def wants_checks(self) -> bool:
        step = self.clock.mode_step("train")
        if self._check_step != step:
            self._check_step = step
            self._is_check_due = bool(self._dues_of("train").checks.at(step))
        return self._is_check_due

    def checks(self, values: Mapping[str, float]) -> None:
        self._checks |= {name: Scalar(CHECKS, (value,)) for name, value in values.items()}

    def spent(self, own_ns: int, begun_ns: int) -> None:
        self.cost.add(own_ns, begun_ns)

    def loss(self, site: object, value: Any, name: str | None = None, marks: tuple[str, ...] = ()) -> None:
        begun = self.cost.begin()
        if self._alarmed_step < 0 and isinstance(value, float) and value - value != 0.0:
            self._alarmed_step = self.clock.mode_step("train")
        self._losses_of("train").add(site, value, name, marks)
        self.cost.end(begun)

    def scores(self, scores: Scores, values: Sequence[float]) -> None:
        is_loss_due = self.wants_loss()
        for each, value in zip(scores, values, strict=True):
            if not each.is_loss:
                self.log({each.name: value}, "metrics", each.marks)
            elif is_loss_due:
                self.loss(each.name, value, each.name, each.marks)
        self._scored = scores

    def plain_step(self, owner: object, scores: Scores, values: Sequence[float]) -> bool:
        plain, outbox = self._plain, self._outbox
        if plain is None or plain.scores is not scores or outbox is None or not all(map(math.isfinite, values)):
            return False
        if not self._is_plain(owner, plain):
            return False
        begun = self.cost.begin()
        stamp = self.clock.stamp()
        if plain.places:
            outbox.put_row(plain.layout, stamp, plain.pack(values), _is_calm)
            self._losses_of("train").latest.update((name, values[at]) for name, at in plain.losses)
        self._finish_step(stamp, plain.names)
        self.begin_step()
        self.timeline.end_step(stamp.step)
        self.cost.end(begun)
        self._control.obey(self.clock.step - 1)
        return True

    def last_step(self, family: Family) -> None:
        """What its schedules would capture later is due now; what is listed for some steps only is not."""
        step = self.clock.mode_step("train")
        recurring = self._dues_of("train").forward.recurring(step)
        before = self._forwarded if self._is_forward_watched else ()
        items = tuple(dict.fromkeys((*before, *(item for item in recurring if is_of_family(item, (family,))))))
        if items != before:
            self._adapter.watch_forward(items)
            self._is_forward_watched, self._forwarded = True, items

    def training_begins(self, owner: object) -> bool:
        return self.clock.claim(owner)

    def training_ends(self, owner: object) -> None:
        self.clock.release(owner)

    def event(self, name: str, args: dict[str, Any]) -> None:
        self._event(name, args)

    def before_update(self, optimizer: Any) -> None:
        if self._evaluating is not None:
            self._adapter.end_evaluation()
        begun = self.cost.begin()
        if self._outbox is not None:
            self._outbox.poll(self.clock.step)
        watched = self._watched.get(optimizer) or self._watch(optimizer)
        if self._has_norms:
            clipped = watched.subject.clipped()
            self._norms |= {name: Scalar(GRADIENT_NORMS, (value,)) for name, value in clipped.items()}
        step = self.clock.mode_step("train")
        due = watched.due.at(step)
        if step == self._alarmed_step:
            due = tuple(dict.fromkeys((*due, *self._counting)))
        if due:
            if not watched.subject.is_current():
                watched = self._watch(optimizer)
                watched.due.at(step)
            self._begin_capture(watched, due)
        self.cost.end(begun)
        if not self.listener.is_calm:
            self.listener.mark("optimizer")

    def after_update(self, optimizer: Any, *, is_skipped: Any, is_part: bool = False) -> None:
        begun = self.cost.begin()
        skipped = is_skipped if isinstance(is_skipped, bool) else self._adapter.row([is_skipped])
        watched = self._watched.get(optimizer)
        if watched is not None and watched.running is not None:
            self._end_capture(watched, skipped)
        if is_part:
            self.cost.end(begun)
            return
        if skipped is not False and self._outbox is not None:
            self._outbox.put_skipped(type(optimizer).__name__, self.clock.stamp(), skipped)
        is_end = self.clock.owns(optimizer)
        if is_end:
            self._end_step()
        self.cost.end(begun)
        self._control.obey(self.clock.step - 1)
        if is_end and not self.listener.is_calm:
            self.listener.begin_step(self.clock.step)

    def begin_step(self) -> None:
        """Make ready for the step that begins: watch its forward pass where that is due, and where losses get names."""
        step = self.clock.mode_step("train")
        due = self._dues_of("train").forward.at(step)
        if due or step < _NAMED_BY_STEP:
            self._adapter.watch_forward(due)
            self._is_forward_watched, self._forwarded = True, due

    def evaluation_mode(self) -> str:
        return self.clock.named or "eval"

    def eval_step_begins(self) -> tuple[CaptureItem, ...]:
        begun = self.cost.begin()
        self.timeline.begin_eval()
        stamp = self._evaluating = self.clock.stamp(self.evaluation_mode())
        dues = self._dues_of(stamp.mode)
        self._is_eval_loss_due = bool(dues.losses.at(stamp.mode_step))
        self._forwarded = dues.forward.at(stamp.mode_step)
        self.cost.end(begun)
        return self._forwarded

    def eval_loss(self, name: str | None, value: Any) -> None:
        if self._evaluating is not None and self._is_eval_loss_due:
            name = name or self._losses_of("train").only_name() or "loss"
            self._losses_of(self._evaluating.mode).add(name, value, name)

    def eval_step_was_training(self) -> None:
        if self._evaluating is not None:
            self._losses_of(self._evaluating.mode).take()
            self._evaluating = None
            self.timeline.forget_eval()

    def eval_step_ends(self, forward: Forward) -> None:
        stamp, self._evaluating = self._evaluating, None
        if stamp is None:
            return
        begun = self.cost.begin()
        self.open()
        self.timeline.end_eval(stamp.step, stamp.mode, forward.own_ns)
        self._put_forward(forward, stamp)
        taken = self._losses_of(stamp.mode).take()
        if self._scalars or self._accuracies:
            taken |= self._take_scalars(self._dues_of(stamp.mode).scalars.at(stamp.mode_step))
        self._end(stamp, taken)
        self.cost.end(begun)
        if self._is_finished:
            return
        self._control.obey(self.clock.step - 1)
        if not self.listener.is_calm:
            self.listener.begin_step(self.clock.step, stamp.mode)

    # --- the script's own words ---------------------------------------------------------------------------

    def log(self, values: Mapping[str, Any], collection: str = "scalars", marks: tuple[str, ...] = ()) -> None:
        """Keep scalars for the step under way; the last value of a name holds."""
        for name, value in values.items():
            self._scalars[name] = Scalar(collection, (self._adapter.number(value),), marks)
        self._script_names.update(values)

    def withdraw(self, name: str, collection: str) -> None:
        """Forget a scalar of the step under way."""
        known = self._scalars.get(name)
        if known is not None and known.collection == collection:
            del self._scalars[name]
            self._script_names.discard(name)

    def name_mode(self, mode: str) -> str:
        """The script says which mode the steps without an optimizer's are of; the mode that it said before."""
        before, self.clock.named = self.clock.named or "train", None if mode == "train" else mode
        self._adapter.name_mode(is_evaluation=mode != "train")
        return before

    def finish(self) -> None:
        """The training is over: what waits for the end of a step is written as the last one's."""
        self._is_finished = True
        if self._evaluating is not None:
            self._adapter.end_evaluation()
        if self._norms:
            self._put_scalars(self.clock.stamp(), self._norms)  # of an optimizer that stepped after the clock's owner
            self._norms = {}
        self.flush_scalars()
        self.timeline.finish(self.clock.last_stamp().step)
        if self._outbox is not None:
            self._outbox.drain()

    def flush_scalars(self) -> None:
        """Write what was logged since the last step ended, as that step's: there is no next one.

        What that step has already is a later value of its own, and stands at the step under way. Metrics that a
        process without any step logs through other libraries open no stream: helpers stay silent.
        """
        taken = self._take_scalars(_EVERYTHING)
        if self.writer is None and all(each.collection == "metrics" for each in taken.values()):
            return
        self.open()
        again = {name: each for name, each in taken.items() if name in self._last_names}
        first = {name: each for name, each in taken.items() if name not in again}
        for stamp, values in ((self._last or self.clock.last_stamp(), first), (self.clock.stamp(), again)):
            if values:
                self._put_scalars(stamp, values)

    # --- inside -------------------------------------------------------------------------------------------

    def _watch(self, optimizer: Any) -> _Watched:
        watched = _Watched(self._adapter.subject(optimizer), CaptureSchedule(self._tensor_items, self.budget))
        self._watched[optimizer] = watched
        subjects = [each.subject for each in self._watched.values()]
        self.watching = [(each.model, each.optimizer, each.parameters) for each in subjects]
        self.open()
        return watched

    def open(self) -> None:
        """Open the worker's streams, if they are not open yet."""
        if self.writer is None:
            self.writer = self._open_writer()
            self._outbox = WriteQueue(self.writer)
            self.timeline.open(self.writer)

    def _begin_capture(self, watched: _Watched, due: tuple[CaptureItem, ...]) -> None:
        key = tuple(id(item) for item in due)
        if key not in watched.programs:
            watched.programs[key] = watched.subject.program(due, self._device_bytes)
        program = watched.programs[key]
        if program is None or self.writer is None:
            return
        watched.running, watched.stamp, watched.captured = program, self.clock.stamp(), due
        begun = self.budget.begin()
        found = program.before()
        if found is not None and self._outbox is not None:
            self._outbox.put_row(found[0], watched.stamp, found[1], self._is_bad)
        begun = self.budget.end("tensors", due, begun)
        form = program.raw_form()
        if form is not None:
            self._put_tensors(form, watched.stamp, program)
        self.budget.end("raw", due, begun)

    def _put_tensors(self, form: CaptureForm, stamp: StepStamp, source: Program | Forward) -> None:
        buffer = self.writer.acquire(form, stamp.step) if self.writer is not None else None
        copied = source.fill(buffer)
        if buffer is not None and self._outbox is not None:
            self._outbox.put_tensors(TensorCapture(buffer, stamp.step, stamp.time_ns), copied)

    def _end_capture(self, watched: _Watched, skipped: bool | bytes | PendingNumbers) -> None:
        program, stamp = watched.running, watched.stamp
        watched.running = watched.stamp = None
        if program is None or stamp is None or program.update_layout is None or self._outbox is None:
            return
        if skipped is True:
            return
        begun = self.budget.begin()
        found = program.after()
        if found is not None:
            self._outbox.put_row(program.update_layout, stamp, found, _is_calm, skipped=skipped)
        self.budget.end("tensors", watched.captured, begun)

    def _end_step(self) -> None:
        stamp = self.clock.stamp()
        if self._is_forward_watched:
            self._is_forward_watched = False
            for forward in self._adapter.end_forwards():
                self._put_forward(forward, stamp)
        taken = self._losses_of("train").take() | self._norms | self._checks
        self._norms, self._checks = {}, {}
        dues = self._dues_of("train")
        if dues.settings.at(stamp.mode_step):
            taken |= self._take_settings()
        if self._scalars or self._accuracies:
            taken |= self._take_scalars(dues.scalars.at(stamp.mode_step))
        self._end(stamp, taken)
        self._look_at_scores(taken, dues)
        self.begin_step()
        self.timeline.end_step(stamp.step)

    def _is_plain(self, owner: object, plain: MetricRow) -> bool:
        """Whether nothing is due at the step under way but what the row bears, and nobody has said more."""
        others = (self._scalars, self._accuracies, self._norms, self._checks, self._losses_of("train").pending())
        return (
            not self._is_forward_watched
            and self._evaluating is None
            and not any(others)
            and self.listener.is_calm
            and plain.version == self.budget.version
            and owner in self._watched
            and self.clock.is_owned_by(owner)
            and self._dues_of("train").settings.is_idle(self.clock.mode_step("train"))
        )

    def _look_at_scores(self, taken: Mapping[str, Scalar], dues: ModeSchedules) -> None:
        """Learn from a step that was told in full what the row of those like it is."""
        scores, self._scored = self._scored, None
        if scores is None:
            return
        version, plain = self.budget.version, self._plain
        if plain is None or plain.scores is not scores or plain.version != version:
            layout = self._rows.layout(taken)
            self._plain = metric_row(scores, taken, layout, self._losses_of("train"), dues, version)

    def _end(self, stamp: StepStamp, taken: Mapping[str, Scalar]) -> None:
        if taken:
            self._put_scalars(stamp, taken)
        self._finish_step(stamp, frozenset(taken))

    def _finish_step(self, stamp: StepStamp, names: frozenset[str]) -> None:
        if self._outbox is not None:
            self._outbox.finish_step(stamp)
        self._last, self._last_names = stamp, names
        self._keep_budget(stamp)
        self.clock.tick(stamp.mode, is_counted=stamp.mode == "train" or not self._adapter.is_distributed())

    def _keep_budget(self, stamp: StepStamp) -> None:
        for change in self.budget.end_step(stamp.mode, stamp.mode_step, self.cost.until):
            for args in change.events():
                self._event("capture_thinned", args)

    def _dues_of(self, mode: str) -> ModeSchedules:
        if mode not in self._dues:
            self._dues[mode] = schedules_for(mode, self.budget, self._adapter.hears)
        return self._dues[mode]

    def _losses_of(self, mode: str) -> LossBuffer:
        if mode not in self._losses:
            self._losses[mode] = LossBuffer()
        return self._losses[mode]

    def _put_forward(self, forward: Forward, stamp: StepStamp) -> None:
        for name, value in forward.accuracy.items():
            if name in self._accuracy_names or name not in self._script_names:
                self._accuracy_names.add(name)
                self._accuracies[name] = Scalar("metrics", (value,))
        if self.writer is None:
            return
        self.cost.add(forward.own_ns, forward.begun_ns)
        begun = self.budget.begin()
        found = forward.row()
        if found is not None and self._outbox is not None:
            self._outbox.put_row(found[0], stamp, found[1], self._is_bad)
        form = forward.raw_form()
        if form is not None and stamp.mode != "train" and self._adapter.is_distributed():
            self.note("raw tensors of eval steps are not stored where several ranks train: the steps share a number")
            form = None
        if form is not None:
            self._put_tensors(form, stamp, forward)
        self.budget.end("forward", self._forwarded, begun, more_ns=forward.own_ns)

    def _take_settings(self) -> dict[str, Scalar]:
        return {
            name: Scalar("hyperparameters", (value,))
            for watched in self._watched.values()
            for name, value in watched.subject.hyperparameters().items()
        }

    def _take_scalars(self, due: Sequence[CaptureItem]) -> dict[str, Scalar]:
        """Accuracies, and what was logged and is due, the rest waits.

        A logged name that is an accuracy's or a loss's gets its collection in front.
        """
        if not due:
            return {}
        logged, self._scalars = self._scalars, {}
        own, self._accuracies = self._accuracies, {}
        taken = self._accuracy_names.union(*(each.latest for each in self._losses.values()))
        named: dict[str, Scalar] = {}
        for name, each in dict(logged).items():  # copied, since a thread that logs may hold it still
            if any(item.selects(name, frozenset({each.collection})) for item in due):
                named[f"{each.collection}/{name}" if name in taken else name] = each
            else:
                self._scalars.setdefault(name, each)
        return named | own

    def _put_scalars(self, stamp: StepStamp, taken: Mapping[str, Scalar]) -> None:
        if self._outbox is not None:
            row_layout, values = self._rows.row(taken, self._adapter.row)
            self._outbox.put_row(row_layout, stamp, values, lambda layout, come: self._keep_losses(stamp, layout, come))

    def _keep_losses(self, stamp: StepStamp, row_layout: SeriesLayout, values: bytes) -> bool:
        """Keep the losses that have come; whether one of a row's numbers is not finite."""
        numbers = memoryview(values).cast("d")
        self._losses_of(stamp.mode).keep(row_layout, numbers)
        return any(value - value != 0.0 for value in numbers)

    def _is_bad(self, row_layout: SeriesLayout, values: Any) -> bool:
        """Whether a row tells of an element that is NaN or infinite."""
        known = self._counts.get(id(row_layout))
        if known is None or known[0] is not row_layout:
            places = tuple(at for at, (_, name) in enumerate(row_layout.columns) if name in _COUNTS)
            known = self._counts[id(row_layout)] = (row_layout, places)
        numbers = memoryview(values).cast("d")
        return any(map(numbers.__getitem__, known[1]))

    def _tell_owner(self, optimizer: str) -> None:
        self._event("clock_owner", {"optimizer": optimizer})

    def _event(self, name: str, args: dict[str, Any]) -> None:
        if self.writer is not None:
            self.writer.put_event(Event(name, self.clock.step, time.time_ns(), args=args))


def _is_calm(row_layout: SeriesLayout, values: bytes) -> bool:
    return False


def _selects_parameters(item: CaptureItem) -> bool:
    if item.collection in (SCALAR_COLLECTIONS | TREE_COLLECTIONS) - {GRADIENT_NORMS}:
        return False
    return item.collection is None or not is_module_collection(item.collection)
