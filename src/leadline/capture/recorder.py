"""The recorder: hears what a training does, captures what is due, and ends the steps."""

from __future__ import annotations

import struct
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from leadline.capture.budget import Budget
from leadline.capture.control import ControlWatch
from leadline.capture.cost import Cost
from leadline.capture.dueness import Due
from leadline.probes.adapter import Adapter, Program, Subject
from leadline.probes.clock import StepClock
from leadline.records.event import Event
from leadline.records.names import SCALAR_COLLECTIONS, is_module_collection
from leadline.records.plan import CaptureItem, CapturePlan, is_of_modules
from leadline.records.series import SeriesLayout, StepStamp, TensorInfo
from leadline.store.tensors import TensorCapture
from leadline.store.writer import SKIPPED_LAYOUT, Writer

_COUNTS = frozenset({"nan_count", "nonfinite_count"})


@dataclass(slots=True)
class _Watched:
    """An optimizer, what it updates, and the programs made for it."""

    subject: Subject
    due: Due
    programs: dict[tuple[int, ...], Program | None] = field(default_factory=dict)
    running: Program | None = None
    stamp: StepStamp | None = None
    captured: tuple[CaptureItem, ...] = ()
    """What ``running`` captures."""


@dataclass(slots=True)
class _Loss:
    """The backward passes begun at one place of the script in the step under way."""

    name: str
    total: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A number of the step under way; of a loss also how many micro-batches it is the mean of."""

    collection: str
    values: tuple[float, ...]


class Recorder:
    """See ``leadline.probes.adapter.Probes``.

    Args:
        open_writer: Makes the worker's writer; called at the first step, so that processes that never train
            leave no trace.
    """

    def __init__(
        self, plan: CapturePlan, adapter: Adapter, control: ControlWatch, open_writer: Callable[[], Writer]
    ) -> None:
        self.cost = Cost()
        self.notes: list[str] = []
        self.losses: dict[str, float] = {}
        """The latest value of each loss."""
        self.watching: list[tuple[str, str, int]] = []
        """Model, optimizer and number of parameters of all that were watched when the last of them came."""
        self.clock = StepClock(self._tell_owner)
        self.writer: Writer | None = None
        self._adapter = adapter
        self._control = control
        self._open_writer = open_writer
        self._device_bytes = plan.device_bytes
        self.budget = Budget(plan)
        self._tensor_items = [item for item in self.budget.items if _selects_parameters(item)]
        self._loss_due = self._due(lambda item: item.collection in ("losses", "all", None))
        self._scalar_due = self._due(lambda item: item.collection in ("scalars", "metrics", "all", None))
        self._setting_due = self._due(lambda item: item.collection == "hyperparameters")
        self._forward_due = self._due(is_of_modules)
        self._watched: weakref.WeakKeyDictionary[Any, _Watched] = weakref.WeakKeyDictionary()
        self._counts: dict[int, tuple[SeriesLayout, tuple[int, ...]]] = {}
        self._is_forward_watched = False
        self._forwarded: tuple[CaptureItem, ...] = ()
        self._loss_step = -1
        self._is_loss_due = False
        self._sites: dict[object, _Loss] = {}
        self._scalars: dict[str, _Scalar] = {}
        self._layouts: dict[tuple[tuple[str, str], ...], SeriesLayout] = {}

    def note(self, line: str) -> None:
        """Keep a line about something that is not captured, once."""
        if line not in self.notes:
            self.notes.append(line)

    # --- probes -------------------------------------------------------------------------------------------

    def wants_loss(self) -> bool:
        if self._loss_step != self.clock.step:
            self._loss_step = self.clock.step
            self._is_loss_due = bool(self._loss_due.at(self.clock.step))
        return self._is_loss_due

    def loss(self, site: object, value: float) -> None:
        begun = self.cost.begin()
        known = self._sites.get(site)
        if known is None:
            name = f"loss_{len(self._sites)}" if self._sites else "loss"
            known = self._sites[site] = _Loss(name)
        known.total += value
        known.count += 1
        self.cost.end(begun)

    def before_update(self, optimizer: Any) -> None:
        begun = self.cost.begin()
        watched = self._watched.get(optimizer) or self._watch(optimizer)
        due = watched.due.at(self.clock.step)
        if due:
            if not watched.subject.is_current():
                watched = self._watch(optimizer)
                watched.due.at(self.clock.step)
            self._begin_capture(watched, due)
        self.cost.end(begun)

    def after_update(self, optimizer: Any, *, is_skipped: bool, is_part: bool = False) -> None:
        begun = self.cost.begin()
        watched = self._watched.get(optimizer)
        if watched is not None and watched.running is not None:
            self._end_capture(watched, is_skipped=is_skipped)
        if is_part:
            self.cost.end(begun)
            return
        if is_skipped and self.writer is not None:
            self._event("step_skipped", {"optimizer": type(optimizer).__name__})
            self.writer.put_row(SKIPPED_LAYOUT, self.clock.stamp(), struct.pack("<d", 1.0))
        if self.clock.owns(optimizer):
            self._end_step()
        self.cost.end(begun)
        self._control.obey(self.clock.step - 1)

    def begin_step(self) -> None:
        """Make ready for the step that begins: watch its forward pass where that is due."""
        due = self._forward_due.at(self.clock.step)
        if due:
            self._adapter.watch_forward(due)
            self._is_forward_watched, self._forwarded = True, due

    # --- the script's own words ---------------------------------------------------------------------------

    def log(self, values: Mapping[str, Any], collection: str = "scalars") -> None:
        """Keep scalars for the step under way; the last value of a name holds."""
        for name, value in values.items():
            self._scalars[name] = _Scalar(collection, (self._adapter.number(value),))

    def flush_scalars(self) -> None:
        """Write what was logged since the last step ended, as that step's: there is no next one."""
        if self._scalars:
            self.writer = self.writer or self._open_writer()
            self._put_scalars(self.clock.last_stamp(), self._take_scalars())

    # --- inside -------------------------------------------------------------------------------------------

    def _watch(self, optimizer: Any) -> _Watched:
        watched = _Watched(self._adapter.subject(optimizer), Due(self._tensor_items, self.budget))
        self._watched[optimizer] = watched
        subjects = [each.subject for each in self._watched.values()]
        self.watching = [(each.model, each.optimizer, each.parameters) for each in subjects]
        if self.writer is None:
            self.writer = self._open_writer()
        return watched

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
        if found is not None:
            row_layout, values = found
            self.writer.put_row(row_layout, watched.stamp, values, is_urgent=self._is_bad(row_layout, values))
        begun = self.budget.end("tensors", due, begun)
        form = program.raw_form()
        if form is not None:
            buffer = self.writer.acquire(form, watched.stamp.step)
            if buffer is not None:
                program.fill(buffer)
                self.writer.put_tensors(TensorCapture(buffer, watched.stamp.step, watched.stamp.time_ns))
        self.budget.end("raw", due, begun)

    def _end_capture(self, watched: _Watched, *, is_skipped: bool) -> None:
        program, stamp = watched.running, watched.stamp
        watched.running = watched.stamp = None
        if program is None or stamp is None or program.update_layout is None or is_skipped or self.writer is None:
            return
        begun = self.budget.begin()
        self.writer.put_row(program.update_layout, stamp, program.after())
        self.budget.end("tensors", watched.captured, begun)

    def _end_step(self) -> None:
        stamp = self.clock.stamp()
        if self._is_forward_watched:
            self._end_forward(stamp)
        taken = self._take_losses()
        if self._setting_due.at(stamp.step):
            taken |= self._take_settings()
        if self._scalars and self._scalar_due.at(stamp.step):
            taken |= self._take_scalars()
        if taken:
            self._put_scalars(stamp, taken)
        if self.writer is not None:
            self.writer.finish_step(stamp)
        self._keep_budget(stamp)
        self.clock.tick()
        self.begin_step()

    def _keep_budget(self, stamp: StepStamp) -> None:
        for change in self.budget.end_step(stamp.mode, stamp.mode_step, self.cost.until):
            for args in change.events():
                self._event("capture_thinned", args)

    def _due(self, selects: Callable[[CaptureItem], bool]) -> Due:
        return Due([item for item in self.budget.items if selects(item)], self.budget)

    def _end_forward(self, stamp: StepStamp) -> None:
        self._is_forward_watched = False
        forward = self._adapter.end_forward()
        if forward is None or self.writer is None:
            return
        self.cost.own_ns += forward.own_ns
        begun = self.budget.begin()
        found = forward.row()
        if found is not None:
            row_layout, values = found
            self.writer.put_row(row_layout, stamp, values, is_urgent=self._is_bad(row_layout, values))
        form = forward.raw_form()
        if form is not None:
            buffer = self.writer.acquire(form, stamp.step)
            if buffer is not None:
                forward.fill(buffer)
                self.writer.put_tensors(TensorCapture(buffer, stamp.step, stamp.time_ns))
        self.budget.end("forward", self._forwarded, begun, more_ns=forward.own_ns)

    def _take_settings(self) -> dict[str, _Scalar]:
        return {
            name: _Scalar("hyperparameters", (value,))
            for watched in self._watched.values()
            for name, value in watched.subject.hyperparameters().items()
        }

    def _take_losses(self) -> dict[str, _Scalar]:
        taken = {}
        for each in self._sites.values():
            if each.count:
                self.losses[each.name] = each.total / each.count
                taken[each.name] = _Scalar("losses", (self.losses[each.name], float(each.count)))
                each.total, each.count = 0.0, 0
        return taken

    def _take_scalars(self) -> dict[str, _Scalar]:
        taken, self._scalars = self._scalars, {}
        return taken

    def _put_scalars(self, stamp: StepStamp, taken: Mapping[str, _Scalar]) -> None:
        if self.writer is None:
            return
        values = [value for each in taken.values() for value in each.values]
        row_layout = self._scalar_layout(tuple((name, each.collection) for name, each in taken.items()))
        is_bad = any(value - value != 0.0 for value in values)
        self.writer.put_row(row_layout, stamp, struct.pack(f"<{len(values)}d", *values), is_urgent=is_bad)

    def _scalar_layout(self, names: tuple[tuple[str, str], ...]) -> SeriesLayout:
        known = self._layouts.get(names)
        if known is None:
            tensors = tuple(TensorInfo(name, (collection,), (), "float64") for name, collection in names)
            columns: list[tuple[int, str]] = []
            for index, (_, collection) in enumerate(names):
                columns.append((index, "value"))
                if collection == "losses":
                    columns.append((index, "count"))
            known = self._layouts[names] = SeriesLayout(tensors, tuple(columns))
        return known

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


def _selects_parameters(item: CaptureItem) -> bool:
    if item.collection in SCALAR_COLLECTIONS:
        return False
    return item.collection is None or not is_module_collection(item.collection)
