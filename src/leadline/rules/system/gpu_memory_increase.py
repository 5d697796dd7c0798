"""The rule gpu_memory_increase."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from leadline.reader.interval import Sensor
from leadline.rules import Advice, Clear, MetricNeed, Verdict, Window
from leadline.rules.bounds import NonNegativeInt, Percent, PositiveInt
from leadline.rules.messages import fired, too_few
from leadline.rules.system.system_rule import GPU_MEMORY, SystemRule, device_name, without_gpu

_ADVICE: Final = Advice(
    "{to_number} what is kept from step to step (losses, outputs), {no_graph_in_evaluation}; usually a list of tensors "
    "{kept_tensors}, or sequences become longer"
)


@dataclass(slots=True)
class _MemoryWindows:
    """The memory of a GPU: the last samples, and as many before them."""

    old: deque[float] = field(default_factory=deque)
    new: deque[float] = field(default_factory=deque)
    old_sum: float = 0.0
    new_sum: float = 0.0
    seen: int = 0
    largest_increase: tuple[float, float] | None = None
    """Both means where they differed most since the last evaluation; None: a window was not full."""

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
            largest = self.largest_increase
            if largest is None or means[1] - means[0] > largest[1] - largest[0]:
                self.largest_increase = means


class GPUMemoryIncrease(SystemRule, frozen=True, kw_only=True):
    """Fires when the memory used on a GPU is much larger in one window of samples than in the window before.

    Why it matters:
        A training whose memory grows runs out of memory, often hours later. Common causes: tensors kept in a list, a
        graph that is never freed, ever longer sequences.
    How it decides:
        Fires if ``mean of the last window samples - mean of the window samples before them > increase``, in percentage
        points of the GPU's memory. The first ``patience`` samples are skipped. Evaluated at every sample, for each GPU
        separately.
    Not a number:
        A metric that cannot be read has no samples; undecided until both windows are full.
    Blind spots:
        PyTorch keeps freed memory in its cache, so the memory that the driver reports grows in jumps and rarely
        shrinks. A slow leak stays below ``increase`` in each window: ``memory_growth`` evaluates the slope.
    Args:
        increase: Percentage points of a GPU's memory, 0 to 100.
        patience: Samples skipped at the start, >= 0.
        window: Samples per mean, >= 1.
    Source:
        SageMaker developer guide, "GPUMemoryIncrease" (``smdebug_rulesconfig`` 1.0.1 has increase 5, patience 1000,
        window 10).
    """

    metrics: ClassVar[tuple[MetricNeed, ...]] = (GPU_MEMORY,)

    increase: Percent = 10.0
    patience: NonNegativeInt = 100
    window: PositiveInt = 500

    def remember(self, memory: Any, window: Window) -> dict[Sensor, _MemoryWindows]:
        gpus: dict[Sensor, _MemoryWindows] = memory or {}
        for gpu in gpus.values():
            gpu.largest_increase = None
        for batch in window.samples(GPU_MEMORY.kind, GPU_MEMORY.metric):
            gpu = gpus.setdefault(batch.sensor, _MemoryWindows())
            for value in batch.values[max(0, self.patience - gpu.seen) :].tolist():
                gpu.add(value, self.window)
            gpu.seen += len(batch.values)
        return gpus

    def evaluate(self, window: Window) -> Verdict:
        gpus: dict[Sensor, _MemoryWindows] = window.memory
        means = {
            device_name(sensor): gpu.largest_increase
            for sensor, gpu in sorted(gpus.items())
            if gpu.largest_increase is not None
        }
        grown = {name: (old, new) for name, (old, new) in means.items() if new - old > self.increase}
        if not grown:
            if not gpus:
                return without_gpu(window)
            seen = max(gpu.seen for gpu in gpus.values())
            return Clear() if means else too_few(seen, self.patience + 2 * self.window, "system samples")
        names = sorted(grown, key=lambda name: (grown[name][0] - grown[name][1], name))
        old, new = grown[names[0]]
        return fired(
            f"{names[0]} holds {new:.0f} % of its memory, {new - old:.0f} points more than {self.window:,} samples "
            f"before",
            *names,
            advice=_ADVICE,
            evidence={"before_percent": old, "percent": new, "increase": new - old, "allowed": self.increase},
            noun="GPU",
        )
