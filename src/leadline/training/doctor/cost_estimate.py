"""Cost estimates of capture plans: each is captured a few times and discarded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from leadline.config.presets import FIRST_STEPS
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.instrumentation.step_context import StepContext
from leadline.records.doctor_report import PlanPart, PlanPrice
from leadline.records.names import SCALAR_COLLECTIONS, TREE_COLLECTIONS, is_module_collection
from leadline.records.plan import (
    CaptureItem,
    CapturePlan,
    Schedule,
    applies_to_mode,
    may_select_module_tensors,
    needs_forward_pass,
)
from leadline.records.series import SeriesLayout, StepStamp
from leadline.store.tensors import BufferPool, CaptureForm, HostBuffer, TensorCapture
from leadline.training.recorder.step_recorder import StepRecorder

_HORIZON_STEPS: Final = 3000
"""Steps over which schedules are averaged; a multiple of every interval of the presets."""
_FIRST_STEP: Final = max(FIRST_STEPS) + 1
"""The first of them: what is captured densely at the beginning is no cost of a longer training."""
_ROW_BYTES: Final = 64
"""Bytes of a row beside its values: its stamp and its share of a batch."""
_REPEATS: Final = 3
_MAX_SECONDS: Final = 2.0


class CostEstimator:
    """Estimates the cost of plans by capturing their items between two steps of the training.

    Changes nothing: it reads what a capture at this step would read, and discards it.

    Args:
        host_bytes: Memory for raw captures; what does not fit is not copied, as in a run.
    """

    def __init__(self, frameworks: LoadedAdapters, optimizers: Sequence[Any], *, host_bytes: int) -> None:
        self._frameworks: Any = _WithoutForward(frameworks)
        self._optimizers, self._host_bytes = tuple(optimizers), host_bytes
        self._measured: dict[tuple[Any, ...], tuple[int, int]] = {}

    def price(self, label: str, items: Sequence[CaptureItem]) -> PlanPrice:
        """Return the cost of a plan of these items."""
        train = [item for item in items if applies_to_mode(item, "train")]
        tensors = [item for item in train if _is_of_optimizers(item)]
        schedules = tuple({item.schedule for item in train})
        counts = Counter(
            frozenset(schedule for schedule in schedules if schedule.should_capture(step))
            for step in range(_FIRST_STEP, _FIRST_STEP + _HORIZON_STEPS)
        )
        parts: Counter[tuple[CaptureItem, ...]] = Counter()
        forward = watched = 0
        for scheduled, count in counts.items():
            parts[tuple(item for item in tensors if item.schedule in scheduled)] += count
            items_now = [item for item in train if item.schedule in scheduled]
            forward += count * any(_is_of_forward(item) for item in items_now)
            watched += count * any(needs_forward_pass(item) or _is_of_forward(item) for item in items_now)
        return {
            "label": label,
            "parts": [self._part(part, count / _HORIZON_STEPS) for part, count in parts.items() if part],
            "forward_share": forward / _HORIZON_STEPS,
            "accuracy_share": (watched - forward) / _HORIZON_STEPS,
        }

    def _part(self, items: Sequence[CaptureItem], share: float) -> PlanPart:
        own_ns, written_bytes = self._measure(items)
        return {"share": share, "own_ns": own_ns, "bytes": written_bytes}

    def base_ns(self) -> int:
        """Return the overhead of a step at which nothing is captured."""
        return self._measure(())[0]

    def _measure(self, items: Sequence[CaptureItem]) -> tuple[int, int]:
        """Return the overhead in ns and the bytes of one capture of the items."""
        every_step = tuple(dict.fromkeys(replace(item, schedule=Schedule(every=1), source="") for item in items))
        if every_step not in self._measured:
            self._measured[every_step] = self._capture(every_step)
        return self._measured[every_step]

    def _capture(self, items: tuple[CaptureItem, ...]) -> tuple[int, int]:
        sink = _Sink(self._host_bytes)
        plan = CapturePlan(items=items, host_bytes=self._host_bytes)
        frameworks = self._frameworks
        context = StepContext("", lambda: "", continues=frameworks.continues, takes_over=frameworks.takes_over)
        control: Any = _NoRequests()
        recorder = StepRecorder(context, plan, self._frameworks, control, lambda: cast(Any, sink))
        own: list[int] = []
        end = time.monotonic() + _MAX_SECONDS
        while len(own) <= _REPEATS and (len(own) < 2 or time.monotonic() < end):
            before_ns, sink.bytes = recorder.cost.own_ns, 0
            for optimizer in self._optimizers:
                recorder.before_update(optimizer)
            for optimizer in self._optimizers:
                recorder.after_update(optimizer, is_skipped=False)
            own.append(recorder.cost.own_ns - before_ns)
        return min(own[1:]), sink.bytes  # the first capture builds programs and allocates memory


def _is_of_forward(item: CaptureItem) -> bool:
    return may_select_module_tensors(item) or item.collection in TREE_COLLECTIONS


def _is_of_optimizers(item: CaptureItem) -> bool:
    if item.collection in TREE_COLLECTIONS:
        return False
    if item.collection in SCALAR_COLLECTIONS:
        return item.collection not in ("losses", "metrics", "scalars")
    return item.collection is None or not is_module_collection(item.collection)


class _WithoutForward:
    """The frameworks without their forward passes: the training has ended its own."""

    def __init__(self, frameworks: LoadedAdapters) -> None:
        self.captures_between_steps = frameworks.captures_between_steps
        self.subject, self.steps_before = frameworks.subject, frameworks.steps_before
        self.number, self.row = frameworks.number, frameworks.row
        self.is_distributed = frameworks.is_distributed
        self.continues, self.takes_over = lambda optimizer: True, lambda optimizer: False

    def watch_forward(self, items: Sequence[CaptureItem], *, by_all: bool = False) -> None: ...

    def end_forwards(self) -> tuple[()]:
        return ()

    def given_items(self, items: Sequence[CaptureItem]) -> tuple[()]:
        return ()

    def end_evaluation(self) -> None: ...


class _NoRequests:
    """Control without requests."""

    def has_pending(self) -> bool:
        return False

    def handle_pending(self, step: int) -> None: ...


class _Sink:
    """Takes what a writer takes, counts its bytes, and discards it."""

    def __init__(self, host_bytes: int) -> None:
        self.bytes = 0
        self._pool = BufferPool(host_bytes)

    def put_row(self, row_layout: SeriesLayout, stamp: StepStamp, values: Any, *, is_urgent: bool = False) -> None:
        self.bytes += 8 * len(row_layout.columns) + _ROW_BYTES

    def put_event(self, event: Any) -> None: ...

    def put_phases(self, row: bytes) -> None: ...

    def acquire(self, form: CaptureForm, step: int) -> HostBuffer | None:
        self.bytes += form.header_bytes + form.data_bytes
        return self._pool.acquire(form)

    def put_tensors(self, capture: TensorCapture) -> None:
        self._pool.release(capture.buffer)

    def finish_step(self, stamp: StepStamp) -> None: ...

    def update_document(self) -> None: ...
