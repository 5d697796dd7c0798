"""What capture plans would cost in the training at hand, found by capturing a few times for nobody."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from leadline.frameworks.installed import Frameworks
from leadline.records.names import SCALAR_COLLECTIONS, TREE_COLLECTIONS, is_module_collection
from leadline.records.plan import CaptureItem, CapturePlan, Schedule, is_of_forward, is_of_mode, is_of_modules
from leadline.records.series import SeriesLayout, StepStamp
from leadline.store.tensors import BufferPool, CaptureForm, HostBuffer, TensorCapture
from leadline.training.recorder.step_recorder import Recorder

_HORIZON_STEPS: Final = 3000
"""So many steps are looked ahead; a multiple of every interval of the presets."""
_ROW_BYTES: Final = 64
"""What a row takes beside its values: its stamp, its share of a batch."""
_REPEATS: Final = 3
_MOST_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class PlanPart:
    """What is due together at some steps."""

    share: float
    """Of how many of all steps."""
    own_ns: int
    """Own time in the training's thread, each time."""
    bytes: int
    """What is stored, each time."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a plan would cost."""

    label: str
    parts: tuple[PlanPart, ...]
    forward_share: float
    """The share of steps at which modules and functions are captured."""
    accuracy_share: float
    """The share of further steps at which only accuracy is."""


class CostEstimator:
    """Prices plans by capturing what they ask of optimizers, between two steps of the training.

    Changes nothing: it reads what a capture at this step would read, and throws it away.

    Args:
        host_bytes: Memory for raw captures; what does not fit is not copied, as it would not be in a run.
    """

    def __init__(self, adapter: Frameworks, optimizers: Sequence[Any], *, host_bytes: int) -> None:
        self._adapter: Any = _WithoutForward(adapter)
        self._optimizers, self._host_bytes = tuple(optimizers), host_bytes
        self._known: dict[tuple[Any, ...], tuple[int, int]] = {}

    def price(self, label: str, items: Sequence[CaptureItem]) -> Price:
        """What a plan of those wishes would cost."""
        train = [item for item in items if is_of_mode(item, "train")]
        tensors = [item for item in train if _is_of_optimizers(item)]
        schedules = tuple({item.schedule for item in train})
        counts = Counter(frozenset(each for each in schedules if each.is_due(step)) for step in _steps())
        parts: Counter[tuple[CaptureItem, ...]] = Counter()
        forward = watched = 0
        for due, count in counts.items():
            parts[tuple(item for item in tensors if item.schedule in due)] += count
            forward += count * any(_is_of_forward(item) for item in train if item.schedule in due)
            watched += count * any(
                is_of_forward(item) or _is_of_forward(item) for item in train if item.schedule in due
            )
        return Price(
            label,
            tuple(PlanPart(count / _HORIZON_STEPS, *self._measure(due)) for due, count in parts.items() if due),
            forward / _HORIZON_STEPS,
            (watched - forward) / _HORIZON_STEPS,
        )

    def base_ns(self) -> int:
        """Own time in a step at which nothing is due."""
        return self._measure(())[0]

    def _measure(self, due: Sequence[CaptureItem]) -> tuple[int, int]:
        """Own time in ns and bytes of one capture of what is due together."""
        every_step = tuple(dict.fromkeys(replace(item, schedule=Schedule(every=1), source="") for item in due))
        if every_step not in self._known:
            self._known[every_step] = self._capture(every_step)
        return self._known[every_step]

    def _capture(self, items: tuple[CaptureItem, ...]) -> tuple[int, int]:
        sink = _Sink(self._host_bytes)
        plan = CapturePlan(items=items, host_bytes=self._host_bytes)
        nobody: Any = _Nobody()
        recorder = Recorder(plan, self._adapter, nobody, lambda: cast(Any, sink))
        own: list[int] = []
        end = time.monotonic() + _MOST_SECONDS
        while len(own) <= _REPEATS and (len(own) < 2 or time.monotonic() < end):
            before_ns, sink.bytes = recorder.cost.own_ns, 0
            for optimizer in self._optimizers:
                recorder.before_update(optimizer)
            for optimizer in self._optimizers:
                recorder.after_update(optimizer, is_skipped=False)
            own.append(recorder.cost.own_ns - before_ns)
        return min(own[1:]), sink.bytes  # the first makes programs and finds memory


def _steps() -> range:
    return range(1, _HORIZON_STEPS + 1)


def _is_of_forward(item: CaptureItem) -> bool:
    return is_of_modules(item) or item.collection in TREE_COLLECTIONS


def _is_of_optimizers(item: CaptureItem) -> bool:
    if item.collection in TREE_COLLECTIONS:
        return False
    if item.collection in SCALAR_COLLECTIONS:
        return item.collection not in ("losses", "metrics", "scalars")
    return item.collection is None or not is_module_collection(item.collection)


class _WithoutForward:
    """An adapter whose forward passes nobody watches: the training at hand has ended its own."""

    def __init__(self, adapter: Frameworks) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def watch_forward(self, items: Sequence[CaptureItem]) -> None: ...

    def end_forwards(self) -> tuple[()]:
        return ()

    def end_evaluation(self) -> None: ...


class _Nobody:
    """Asks for nothing, where a control watch would."""

    def obey(self, step: int) -> None: ...


class _Sink:
    """Takes what a writer takes, counts it, and forgets it."""

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

    def describe_soon(self) -> None: ...
