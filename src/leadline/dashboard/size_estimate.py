"""What a capture plan would write, reckoned from what a run of the same script has shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from leadline.analysis.overview import steps_of
from leadline.reader.run import Run
from leadline.records.formatting import number, size
from leadline.records.overhead import format_share, step_share
from leadline.records.plan import CaptureItem, CapturePlan

_VALUE_BYTES: Final = 8
_ELEMENT_BYTES: Final = 4
"""Of a raw tensor; it is not said of every one what its elements are."""
_ROW_BYTES: Final = 64
"""What a row takes beside its values."""
_SECONDS_AN_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class SizeLine:
    """A wish of the plan, as a row."""

    what: str
    statistics: str
    interval: str
    modes: str
    source: str
    tensors: int | None
    """How many the run had; None: it captured none, so that nobody knows."""
    bytes_a_step: float | None


def lines(plan: CapturePlan, run: Run) -> list[SizeLine]:
    """The wishes of a plan, with what each would write in a step of training on average."""
    counts: dict[str, tuple[int, int]] = {}
    return [_line(each, run, counts) for each in plan.items]


def _line(item: CaptureItem, run: Run, counts: dict[str, tuple[int, int]]) -> SizeLine:
    names = item.collection or "any"
    what = f"{names} like {item.regex!r}" if item.regex else names
    tensors, values = _counted(item, run, counts)
    each = tensors * len(item.statistics) * _VALUE_BYTES + (values * _ELEMENT_BYTES if item.raw else 0) + _ROW_BYTES
    every = item.schedule.every
    is_known = tensors > 0 and every is not None and "train" in item.modes
    return SizeLine(
        what,
        ", ".join(item.statistics) or "raw values",
        _interval(item),
        ", ".join(item.modes),
        item.source,
        tensors or None,
        each / every if is_known and every else None,
    )


def _counted(item: CaptureItem, run: Run, counts: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """How many tensors of the run a wish means, and how many elements they have."""
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


def _bytes_a_step(plan: CapturePlan, run: Run) -> float:
    """What all wishes write together in a step of training on average; what several want is written once."""
    rates: dict[tuple[str | None, str | None, str], float] = {}
    for item in plan.items:
        every = item.schedule.every
        if every is not None and "train" in item.modes:
            for what in (*item.statistics, *(("",) if item.raw else ())):
                key = item.collection, item.regex, what
                rates[key] = max(rates.get(key, 0.0), 1 / every)
    counts: dict[str, tuple[int, int]] = {}
    total = _ROW_BYTES * max(rates.values(), default=0.0)
    for (collection, regex, what), rate in rates.items():
        tensors, values = _counted(CaptureItem(collection, regex), run, counts)
        total += rate * (tensors * _VALUE_BYTES if what else values * _ELEMENT_BYTES)
    return total


def spoken(plan: CapturePlan, found: list[SizeLine], run: Run) -> list[str]:
    """What it comes to, in words; what is reckoned is said to be."""
    workers = list(run.worker_documents().values())
    told = []
    a_step = _bytes_a_step(plan, run)
    pace = _steps_a_second(run)
    if a_step and pace:
        told.append(
            f"Estimate: about {size(round(a_step * pace * _SECONDS_AN_HOUR))} an hour and worker, "
            f"at this run's pace of {pace:.3g} steps a second and with its tensors."
        )
    unknown = list(dict.fromkeys(each.what for each in found if each.tensors is None))
    if unknown:
        told.append(f"Not in it, for this run captured none: {', '.join(unknown[:6])}{' …' * (len(unknown) > 6)}.")
    share = step_share(workers)
    if share is not None:
        preset = run.manifest.preset
        told.append(
            f"Measured: this run, with preset {preset}, spent {format_share(share)} of its step time on watching."
        )
    told.append("leadline doctor -- COMMAND measures the time that presets would take in a script.")
    return told


def _steps_a_second(run: Run) -> float | None:
    workers = list(run.worker_documents().values())
    steps = steps_of(workers).get("train", 0)
    seconds = max((int(each.get("loop_ns") or 0) for each in workers), default=0) / 1e9
    return steps / seconds if steps and seconds else None
