"""The rule gpu_throttling."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from leadline.reader.interval import Sensor
from leadline.records.needs import MetricNeed, Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import GPU, NO_GPU, SCAN_SECONDS, device_name

if TYPE_CHECKING:
    from leadline.reader.window import Window

_THERMAL: Final = MetricNeed("gpu", "thermal_throttle_percent")
_POWER: Final = MetricNeed("gpu", "power_throttle_percent")
_WINDOW: Final = 600
_FEWEST: Final = 50

_Device = tuple[str, str]


@dataclass(slots=True)
class _Brakes:
    """The last samples of each GPU: whether it was braked by heat, and by its power supply."""

    by_device: dict[_Device, deque[tuple[bool, bool]]] = field(default_factory=dict)
    has_gpu: bool = False


class GPUThrottling(Rule, frozen=True, kw_only=True):
    """Fires when a GPU is held back by heat or by its power supply.

    Why it matters:
        A GPU that is too hot runs at a fraction of its clock, and with it every rank that waits for it; it ages, and
        it is a matter of fans and racks that no change to the training cures.
    How it decides:
        Of the last 600 samples of a GPU (at least 50) more than ``share`` tell of thermal slow-down, or of the power
        supply's brake. That a GPU runs at its own power limit is its normal state under load and does not count. Each
        GPU by itself.
    Not a number:
        A sample at which the driver did not tell does not count.
    Blind spots:
        Drivers that do not tell the reasons, and virtual GPUs: undecided. What lasts shorter than a sample is a
        matter of luck.
    Args:
        share: Share of the samples, >= 0 and < 1.
    Source:
        Ours; NVML, "clocks event reasons".
    """

    explains: ClassVar[tuple[str, ...]] = ("straggler", "throughput_regression", "load_balancing")

    share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.1

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=(_THERMAL, _POWER, GPU))

    def remember(self, memory: Any, window: Window) -> _Brakes:
        brakes: _Brakes = memory or _Brakes()
        brakes.has_gpu |= bool(window.samples(GPU.kind, GPU.metric))
        braked: dict[_Device, dict[int, list[bool]]] = {}
        for place, need in enumerate((_THERMAL, _POWER)):
            for each in window.samples(need.kind, need.metric):
                moments = braked.setdefault(_device(each.sensor), {})
                for time_ns, value in zip(each.times_ns.tolist(), each.values.tolist(), strict=True):
                    moments.setdefault(time_ns, [False, False])[place] = value > 0
        for device, moments in braked.items():
            known = brakes.by_device.setdefault(device, deque(maxlen=_WINDOW))
            known.extend((thermal, power) for _, (thermal, power) in sorted(moments.items()))
        return brakes

    def evaluate(self, window: Window) -> Verdict:
        brakes: _Brakes = window.memory
        judged = {device: each for device, each in sorted(brakes.by_device.items()) if len(each) >= _FEWEST}
        shares = {device: sum(map(any, each)) / len(each) for device, each in judged.items()}
        braked = sorted((each for each in shares if shares[each] > self.share), key=lambda each: -shares[each])
        if not braked:
            return Clear() if judged else Undecided(self._why(brakes))
        known = judged[braked[0]]
        thermal, power = (sum(each[place] for each in known) / len(known) for place in (0, 1))
        reason = "heat" if thermal >= power else "its power supply"
        return Fired(
            f"{_spoken(braked[0])} was held back by {reason} in {100 * shares[braked[0]]:.0f} % of the last "
            f"{len(known):,} samples{and_more(len(braked) - 1, 'GPU')}",
            tensors=tuple(map(_spoken, braked)),
            evidence={
                "share": shares[braked[0]],
                "thermal_share": thermal,
                "power_share": power,
                "allowed": self.share,
            },
            suggestion="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER on that node, and another node meanwhile; "
            "usually cooling is blocked or the rack is too warm",
        )

    def _why(self, brakes: _Brakes) -> str:
        if not brakes.has_gpu:
            return NO_GPU
        return f"fewer than {_FEWEST} samples" if brakes.by_device else "the GPU does not tell what holds it back"


def _device(sensor: Sensor) -> _Device:
    return sensor.node, sensor.device


def _spoken(device: _Device) -> str:
    return device_name(Sensor(device[0], "gpu", device[1], ""))
