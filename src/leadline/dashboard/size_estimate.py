"""Size estimate of a capture plan, from a run of the same script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from leadline.reader.run import Run
from leadline.records.formatting import number, share, size
from leadline.records.plan import CaptureItem, CapturePlan
from leadline.records.totals import step_share, steps_by_mode

_VALUE_BYTES: Final = 8
_ELEMENT_BYTES: Final = 4
"""Assumed for raw tensors; the element type is not recorded for all of them."""
_ROW_BYTES: Final = 64
"""Size of a row without its values."""
_SECONDS_PER_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class SizeLine:
    """Estimate of one capture item."""

    target: str
    statistics: str
    interval: str
    modes: str
    source: str
    tensors: int | None
    """Number of tensors in the run; None: unknown, the run captured none."""
    bytes_per_step: float | None


def estimate_items(plan: CapturePlan, run: Run) -> list[SizeLine]:
    """Return the items of a plan, with the average bytes per training step of each."""
    counts: dict[str, tuple[int, int]] = {}
    return [_line(item, run, counts) for item in plan.items]


def _line(item: CaptureItem, run: Run, counts: dict[str, tuple[int, int]]) -> SizeLine:
    collection = item.collection or "any"
    target = f"{collection} like {item.regex!r}" if item.regex else collection
    tensor_count, value_count = _count_tensors(item, run, counts)
    bytes_per_capture = (
        tensor_count * len(item.statistics) * _VALUE_BYTES
        + (value_count * _ELEMENT_BYTES if item.raw else 0)
        + _ROW_BYTES
    )
    interval = item.schedule.every
    is_estimated = tensor_count > 0 and interval is not None and "train" in item.modes
    return SizeLine(
        target,
        ", ".join(item.statistics) or "raw values",
        _interval(item),
        ", ".join(item.modes),
        item.source,
        tensor_count or None,
        bytes_per_capture / interval if is_estimated and interval else None,
    )


def _count_tensors(item: CaptureItem, run: Run, counts: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the number of the run's tensors that an item selects, and of their elements."""
    key = f"{item.collection}|{item.regex}"
    if key not in counts:
        infos: Mapping[str, object] = run.archive.infos()
        names = run.tensor_names(item.collection, item.regex)
        shapes = [getattr(infos.get(name), "shape", None) or (1,) for name in names]
        counts[key] = len(names), int(sum(np.prod(shape, dtype=np.int64) for shape in shapes))
    return counts[key]


def _interval(item: CaptureItem) -> str:
    schedule = item.schedule
    parts = [f"every {number(schedule.every)} steps" if schedule.every != 1 else "every step"] if schedule.every else []
    parts += [f"every {schedule.every_seconds:g} s"] if schedule.every_seconds else []
    parts += [f"at {len(schedule.steps)} steps"] if schedule.steps else []
    parts += [f"from {number(schedule.start)} on"] if schedule.start else []
    parts += [f"before {number(schedule.end)}"] if schedule.end else []
    return ", ".join(parts) or "never"


def _bytes_per_step(plan: CapturePlan, run: Run) -> float:
    """Return the average bytes per training step of a plan; data selected by several items counts once."""
    rates: dict[tuple[str | None, str | None, str], float] = {}
    for item in plan.items:
        interval = item.schedule.every
        if interval is not None and "train" in item.modes:
            for statistic in (*item.statistics, *(("",) if item.raw else ())):
                key = item.collection, item.regex, statistic
                rates[key] = max(rates.get(key, 0.0), 1 / interval)
    counts: dict[str, tuple[int, int]] = {}
    total = _ROW_BYTES * max(rates.values(), default=0.0)
    for (collection, regex, statistic), rate in rates.items():
        tensor_count, value_count = _count_tensors(CaptureItem(collection, regex), run, counts)
        total += rate * (tensor_count * _VALUE_BYTES if statistic else value_count * _ELEMENT_BYTES)
    return total


def describe(plan: CapturePlan, items: list[SizeLine], run: Run) -> list[str]:
    """Describe the estimate and what was measured."""
    workers = list(run.worker_documents().values())
    sentences = []
    bytes_per_step = _bytes_per_step(plan, run)
    steps_per_second = _steps_per_second(run)
    if bytes_per_step and steps_per_second:
        sentences.append(
            f"Estimate: about {size(round(bytes_per_step * steps_per_second * _SECONDS_PER_HOUR))} per hour and "
            f"worker, based on this run's tensors and its {steps_per_second:.3g} steps/s."
        )
    unknown = list(dict.fromkeys(line.target for line in items if line.tensors is None))
    if unknown:
        sentences.append(
            f"Not included, because this run captured none: {', '.join(unknown[:6])}{' …' * (len(unknown) > 6)}."
        )
    ratio = step_share(workers)
    if ratio is not None:
        preset = run.manifest.preset
        sentences.append(f"Measured: this run (preset {preset}) had an overhead of {share(ratio)} of step time.")
    sentences.append("leadline doctor -- COMMAND measures the overhead of each preset for a script.")
    return sentences


def _steps_per_second(run: Run) -> float | None:
    workers = list(run.worker_documents().values())
    steps = steps_by_mode(workers).get("train", 0)
    seconds = max((worker.loop_ns for worker in workers), default=0) / 1e9
    return steps / seconds if steps and seconds else None
