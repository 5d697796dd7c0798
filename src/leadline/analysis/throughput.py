"""How fast a training goes: steps, samples and floating-point operations a second, and what of the peak that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from leadline.analysis.steps import StepTable

PEAKS: Final = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "A30": 165e12,
    "A10G": 70e12,
    "A10": 125e12,
    "L40S": 362e12,
    "L4": 121e12,
    "V100": 125e12,
    "T4": 65e12,
    "MI300X": 1307e12,
    "MI250X": 383e12,
}
"""Dense floating-point operations a second in bfloat16 (V100 and T4: float16), by what a device's name contains, as
the makers' data sheets have them; the first that fits counts."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Of the training steps after the first, all workers that go side by side together.

    Not a number:
        What is not known is absent (None).
    """

    steps_per_second: float | None
    """Of a worker, median of the workers."""
    step_ms: dict[str, float] | None
    """Mean, median and 95th percentile."""
    input_wait_share: float | None
    """Of the step time, what is waiting for data."""
    samples_per_second: float | None
    """Over all workers; needs the batch size."""
    flops_per_second: float | None
    """Of a worker; needs the operations of a step."""
    mfu: float | None
    """Model FLOPs utilisation: of the device's dense peak in 16 bits, whatever type the training computes in."""
    peak_flops_per_second: float | None

    def spoken(self) -> dict[str, Any]:
        """As plain JSON values, of what is known."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def read_throughput(steps: StepTable, facts: Mapping[str, Mapping[str, Any]], devices: Mapping[str, str]) -> Throughput:
    """How fast a training went.

    Args:
        facts: What each worker says of itself: ``batch_size``, ``flops_per_step`` …
        devices: The name of each worker's accelerator, where it has one.
    """
    steps = steps.only(mode="train")
    later = steps.where(steps.step > steps.step.min()) if len(steps) else steps
    if not len(later):
        return Throughput(None, None, None, None, None, None, None)
    found = {name: _pace(later.only(worker=name)) for name in later.workers}
    paces = {name: each for name, each in found.items() if each is not None}
    if not paces:
        return Throughput(None, None, None, None, None, None, None)
    flops, samples = (_rates(paces, facts, name) for name in ("flops_per_step", "batch_size"))
    speed = float(np.median(flops)) if flops else None
    peaks = {peak_of(devices.get(name, "")) for name in paces}
    peak = peaks.pop() if len(peaks) == 1 else None
    return Throughput(
        steps_per_second=float(np.median(list(paces.values()))),
        step_ms=_times(later),
        input_wait_share=later.seconds_by_phase().get("data", 0.0) / later.seconds() if later.seconds() else None,
        samples_per_second=sum(samples) if len(samples) == len(paces) else None,
        flops_per_second=speed,
        mfu=speed / peak if speed is not None and peak else None,
        peak_flops_per_second=peak,
    )


def peak_of(device: str) -> float | None:
    """The peak of a device by its name; None: it is not known."""
    return next((peak for name, peak in PEAKS.items() if name in device), None)


def _pace(steps: StepTable) -> float | None:
    """Steps a second, pauses between them left out."""
    seconds = steps.seconds()
    return steps.count() / seconds if seconds > 0 else None


def _times(steps: StepTable) -> dict[str, float]:
    order = np.argsort(steps.duration_ns)
    lengths, weights = steps.duration_ns[order] / 1e6, np.cumsum(steps.weight[order])
    median, p95 = (float(lengths[np.searchsorted(weights, share * weights[-1])]) for share in (0.5, 0.95))
    return {"mean": float(np.average(lengths, weights=steps.weight[order])), "median": median, "p95": p95}


def _rates(paces: Mapping[str, float], facts: Mapping[str, Mapping[str, Any]], name: str) -> list[float]:
    """What each worker does a second of what its facts say of a step, of those whose facts say it."""
    told = {worker: facts.get(worker, {}).get(name) for worker in paces}
    return [paces[worker] * each for worker, each in told.items() if isinstance(each, (int, float)) and each > 0]
