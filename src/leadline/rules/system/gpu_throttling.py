"""The rule gpu_throttling."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

import msgspec

from leadline.reader.interval import Sensor
from leadline.rules import Advice, Clear, MetricNeed, NotApplicable, Undecided, Verdict, Window
from leadline.rules.messages import fired, too_few
from leadline.rules.system.system_rule import GPU, SystemRule, device_name, without_gpu

_THERMAL: Final = MetricNeed("gpu", "thermal_throttle_percent")
_POWER: Final = MetricNeed("gpu", "power_throttle_percent")
_WINDOW: Final = 600
_MIN_SAMPLES: Final = 50

_Device = tuple[str, str]
_ADVICE: Final = Advice(
    "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER on that node, and another node meanwhile; usually cooling is "
    "blocked or the rack is too warm"
)


@dataclass(slots=True)
class _Throttling:
    """The latest samples of each GPU: whether it was throttled by heat, and by its power supply."""

    by_device: dict[_Device, deque[tuple[bool, bool]]] = field(default_factory=dict)
    has_gpu: bool = False


class GPUThrottling(SystemRule, frozen=True, kw_only=True):
    """Fires when a GPU is throttled by heat or by its power supply.

    Why it matters:
        An overheated GPU runs at a fraction of its clock, and slows down every rank that waits for it. The cause is
        fans, racks or cooling; no change to the training helps.
    How it decides:
        Fires if more than ``share`` of the last 600 samples of a GPU (at least 50) report thermal slowdown or the
        power brake of the supply. A GPU at its own power limit is in its normal state under load and does not count.
        Each GPU is evaluated separately.
    Not a number:
        A sample without throttle reasons is not counted.
    Blind spots:
        Drivers that do not report throttle reasons, and virtual GPUs: undecided. Throttling that is shorter than a
        sampling interval may be missed.
    Args:
        share: Share of the samples, >= 0 and < 1.
    Source:
        Ours; NVML, "clocks event reasons".
    """

    explains: ClassVar[tuple[str, ...]] = ("straggler", "throughput_regression", "load_balancing")
    metrics: ClassVar[tuple[MetricNeed, ...]] = (_THERMAL, _POWER, GPU)

    share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.1

    def remember(self, memory: Any, window: Window) -> _Throttling:
        known: _Throttling = memory or _Throttling()
        known.has_gpu |= bool(window.samples(GPU.kind, GPU.metric))
        new_samples: dict[_Device, dict[int, list[bool]]] = {}
        for index, need in enumerate((_THERMAL, _POWER)):
            for batch in window.samples(need.kind, need.metric):
                samples = new_samples.setdefault((batch.sensor.node, batch.sensor.device), {})
                for time_ns, value in zip(batch.times_ns.tolist(), batch.values.tolist(), strict=True):
                    samples.setdefault(time_ns, [False, False])[index] = value > 0
        for device, samples in new_samples.items():
            latest = known.by_device.setdefault(device, deque(maxlen=_WINDOW))
            latest.extend((thermal, power) for _, (thermal, power) in sorted(samples.items()))
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: _Throttling = window.memory
        judged = {device: latest for device, latest in sorted(known.by_device.items()) if len(latest) >= _MIN_SAMPLES}
        shares = {device: sum(map(any, latest)) / len(latest) for device, latest in judged.items()}
        throttled = sorted((gpu for gpu in shares if shares[gpu] > self.share), key=lambda gpu: -shares[gpu])
        if not throttled:
            return Clear() if judged else self._undecided(known, window)
        worst = throttled[0]
        latest = judged[worst]
        thermal, power = (sum(reasons[index] for reasons in latest) / len(latest) for index in (0, 1))
        reason = "heat" if thermal >= power else "its power supply"
        return fired(
            f"{_gpu_name(worst)} was throttled by {reason} in {100 * shares[worst]:.0f} % of the last "
            f"{len(latest):,} samples",
            *map(_gpu_name, throttled),
            advice=_ADVICE,
            evidence={"share": shares[worst], "thermal_share": thermal, "power_share": power, "allowed": self.share},
            noun="GPU",
        )

    def _undecided(self, known: _Throttling, window: Window) -> NotApplicable | Undecided:
        if not known.has_gpu:
            return without_gpu(window)
        if not known.by_device:
            return Undecided("the GPU does not report throttle reasons", stage="too few")
        return too_few(max(map(len, known.by_device.values())), _MIN_SAMPLES, "samples of a GPU")


def _gpu_name(device: _Device) -> str:
    return device_name(Sensor(device[0], "gpu", device[1], ""))
