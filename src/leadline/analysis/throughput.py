"""Throughput of a training: steps, samples and FLOPs per second, and model FLOPs utilization."""

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
"""Dense peak FLOPs per second in bfloat16 (V100, T4: float16) from the vendors' data sheets, by substring of the device
name; the first match is used."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput of the training steps after the first, over all parallel workers.

    Not a number:
        Unknown values are None.
    """

    steps_per_second: float | None
    """Per worker, median over the workers."""
    step_ms: dict[str, float] | None
    """Mean, median and 95th percentile."""
    input_wait_share: float | None
    """The share of the step time spent waiting for data."""
    samples_per_second: float | None
    """Over all workers; requires the batch size."""
    flops_per_second: float | None
    """Per worker; requires the FLOPs per step."""
    mfu: float | None
    """Model FLOPs utilization, relative to the dense 16-bit peak of the device, for any data type."""
    peak_flops_per_second: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the known values as plain JSON values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def read_throughput(steps: StepTable, facts: Mapping[str, Mapping[str, Any]], devices: Mapping[str, str]) -> Throughput:
    """Compute the throughput of a training.

    Args:
        facts: The facts of each worker: ``batch_size``, ``flops_per_step`` …
        devices: The name of each worker's accelerator, if it has one.
    """
    steps = steps.only(mode="train")
    later = steps.where(steps.step > steps.step.min()) if len(steps) else steps
    if not len(later):
        return Throughput(None, None, None, None, None, None, None)
    rates = {name: _steps_per_second(later.only(worker=name)) for name in later.workers}
    speeds = {name: rate for name, rate in rates.items() if rate is not None}
    if not speeds:
        return Throughput(None, None, None, None, None, None, None)
    flops, samples = (_rates(speeds, facts, name) for name in ("flops_per_step", "batch_size"))
    speed = float(np.median(flops)) if flops else None
    peaks = {peak_of(devices.get(name, "")) for name in speeds}
    peak = peaks.pop() if len(peaks) == 1 else None
    return Throughput(
        steps_per_second=float(np.median(list(speeds.values()))),
        step_ms=_times(later),
        input_wait_share=later.seconds_by_phase().get("data", 0.0) / later.seconds() if later.seconds() else None,
        samples_per_second=sum(samples) if len(samples) == len(speeds) else None,
        flops_per_second=speed,
        mfu=speed / peak if speed is not None and peak else None,
        peak_flops_per_second=peak,
    )


def peak_of(device: str) -> float | None:
    """Return the peak FLOPs per second of a device by its name; None if unknown."""
    return next((peak for name, peak in PEAKS.items() if name in device), None)


def _steps_per_second(steps: StepTable) -> float | None:
    """Return the steps per second, without the pauses between steps."""
    seconds = steps.seconds()
    return steps.count() / seconds if seconds > 0 else None


def _times(steps: StepTable) -> dict[str, float]:
    order = np.argsort(steps.duration_ns)
    lengths, weights = steps.duration_ns[order] / 1e6, np.cumsum(steps.weight[order])
    median, p95 = (float(lengths[np.searchsorted(weights, share * weights[-1])]) for share in (0.5, 0.95))
    return {"mean": float(np.average(lengths, weights=steps.weight[order])), "median": median, "p95": p95}


def _rates(speeds: Mapping[str, float], facts: Mapping[str, Mapping[str, Any]], name: str) -> list[float]:
    """Multiply the steps per second of each worker by a fact per step, for workers that have it."""
    values = {worker: facts.get(worker, {}).get(name) for worker in speeds}
    return [speeds[worker] * value for worker, value in values.items() if isinstance(value, (int, float)) and value > 0]
