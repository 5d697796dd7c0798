"""The rule gpu_memory_increase."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from leadline.reader.interval import Sensor
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import GPU_MEMORY, NO_GPU, SCAN_SECONDS, device_name

if TYPE_CHECKING:
    from leadline.reader.window import Window


@dataclass(slots=True)
class _Course:
    """The memory of a GPU: the last samples, and as many before them."""

    old: deque[float] = field(default_factory=deque)
    new: deque[float] = field(default_factory=deque)
    old_sum: float = 0.0
    new_sum: float = 0.0
    seen: int = 0
    worst: tuple[float, float] | None = None
    """Both means, where they were furthest apart since the rule was asked last; None: a window was not full."""

    def add(self, value: float, window: int) -> None:
        self.new.append(value)
        self.new_sum += value
        if len(self.new) > window:
            self.old.append(self.new.popleft())
            self.old_sum += self.old[-1]
            self.new_sum -= self.old[-1]
        if len(self.old) > window:
            self.old_sum -= self.old.popleft()
        if len(self.old) == window:
            means = (self.old_sum / window, self.new_sum / window)
            if self.worst is None or means[1] - means[0] > self.worst[1] - self.worst[0]:
                self.worst = means


class GPUMemoryIncrease(Rule, frozen=True, kw_only=True):
    """Fires when the memory that is used on a GPU grows by much from one stretch of time to the next.

    Why it matters:
        A training whose memory grows ends out of memory, often hours later: tensors kept in a list, a graph that is
        never freed, ever longer sequences.
    How it decides:
        ``mean of the last window samples - mean of the window samples before them > increase`` percentage points of
        the GPU's memory; the first ``patience`` samples are passed over. Looked at with every sample, each GPU by
        itself.
    Not a number:
        What could not be read has no sample; nothing is judged before both windows are full.
    Blind spots:
        PyTorch keeps freed memory for itself, so what the driver shows grows in jumps and seldom falls. A slow leak
        stays below ``increase`` in each window: ``memory_growth`` looks at the slope.
    Args:
        increase: Percentage points of a GPU's memory, 0 to 100.
        patience: Samples passed over at the start, >= 0.
        window: Samples per mean, >= 1.
    Source:
        SageMaker developer guide, "GPUMemoryIncrease" (``smdebug_rulesconfig`` 1.0.1 has increase 5, patience 1000,
        window 10).
    """

    increase: Annotated[float, msgspec.Meta(ge=0, le=100)] = 10.0
    patience: Annotated[int, msgspec.Meta(ge=0)] = 100
    window: Annotated[int, msgspec.Meta(ge=1)] = 500

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=(GPU_MEMORY,))

    def remember(self, memory: Any, window: Window) -> dict[Sensor, _Course]:
        courses: dict[Sensor, _Course] = memory or {}
        for course in courses.values():
            course.worst = None
        for each in window.samples(GPU_MEMORY.kind, GPU_MEMORY.metric):
            course = courses.setdefault(each.sensor, _Course())
            for value in each.values[max(0, self.patience - course.seen) :].tolist():
                course.add(value, self.window)
            course.seen += len(each.values)
        return courses

    def evaluate(self, window: Window) -> Verdict:
        courses: dict[Sensor, _Course] = window.memory
        means = {device_name(sensor): each.worst for sensor, each in sorted(courses.items()) if each.worst is not None}
        grown = {name: (old, new) for name, (old, new) in means.items() if new - old > self.increase}
        if not grown:
            least = f"fewer than {self.patience + 2 * self.window:,} samples of the machine"
            return Clear() if means else Undecided(least if courses else NO_GPU)
        names = sorted(grown, key=lambda each: (grown[each][0] - grown[each][1], each))
        old, new = grown[names[0]]
        return Fired(
            f"{names[0]} holds {new:.0f} % of its memory, {new - old:.0f} points more than {self.window:,} samples "
            f"before{and_more(len(names) - 1, 'GPU')}",
            tensors=tuple(names),
            evidence={"before_percent": old, "percent": new, "increase": new - old, "allowed": self.increase},
            suggestion="detach or float() what is kept from step to step (losses, outputs), no_grad in evaluation; "
            "usually a list of tensors keeps whole graphs alive, or sequences become longer",
        )
