"""Windows for rules, made in memory without a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from leadline.formats.safetensors import TYPES
from leadline.reader.point import Point, SeriesRow
from leadline.reader.step_axis import StepPlacer
from leadline.reader.view import View
from leadline.reader.window import TensorArray
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.records.verdict import Fired, Verdict
from leadline.rules.rule import Rule
from leadline.testing.runs import ArrayStatistics, Capture, RawTensors


def verdicts(
    rule: Rule,
    parts: Iterable[Capture | RawTensors | ArrayStatistics],
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    is_incomplete: bool = False,
) -> list[tuple[int, Verdict]]:
    """Return the verdict of a rule on each step with data that it needs; its product includes the rule's summary."""
    view = View(rule.needs().tensors)
    results: list[tuple[int, Verdict]] = []
    memory = None
    for point in points(parts, shapes=shapes or {}, is_incomplete=is_incomplete):
        window = view.select(point)
        if window is not None:
            window.memory = memory = rule.remember(memory, window)
            verdict = rule.evaluate(window)
            results.append((point.step, replace(verdict, product=verdict.product | rule.summarize(memory))))
            view.advance()
    return results


def concluded(rule: Rule, parts: Iterable[Capture | RawTensors | ArrayStatistics]) -> Fired | None:
    """Return what a rule finds at the end of a run, once all its steps are remembered."""
    view, memory = View(rule.needs().tensors), None
    for point in points(parts, shapes={}):
        window = view.select(point)
        if window is not None:
            memory = rule.remember(memory, window)
            view.advance()
    return rule.conclude(memory)


def points(
    parts: Iterable[Capture | RawTensors | ArrayStatistics],
    *,
    shapes: Mapping[str, tuple[int, ...]],
    is_incomplete: bool = False,
) -> Iterator[Point]:
    """Group parts into points, in order of their steps."""
    by_step: dict[tuple[int, str], Point] = {}
    for part in parts:
        point = by_step.setdefault((part.step, part.mode), Point(part.step, part.mode, is_incomplete=is_incomplete))
        if isinstance(part, Capture) and "skipped" in part.values.get("clock", {}):
            point.is_skipped = True
        elif isinstance(part, (Capture, ArrayStatistics)):
            point.rows.append(_row(part if isinstance(part, Capture) else part.capture, shapes))
        if isinstance(part, (RawTensors, ArrayStatistics)):
            raw = part if isinstance(part, RawTensors) else part.raw
            mode_step = part.step if isinstance(part, RawTensors) or part.mode_step is None else part.mode_step
            point.arrays += [_array(raw, name, mode_step) for name in raw.tensors]
    axis = StepPlacer()
    for key in sorted(by_step):
        by_step[key].place(axis)
        yield by_step[key]


def _row(part: Capture, shapes: Mapping[str, tuple[int, ...]]) -> SeriesRow:
    names = list(part.values)
    tensors = tuple(part.info(name, shapes) for name in names)
    columns = tuple((index, statistic) for index, name in enumerate(names) for statistic in part.values[name])
    values = np.array([part.values[names[index]][statistic] for index, statistic in columns], dtype=np.float64)
    mode_step = part.step if part.mode_step is None else part.mode_step
    return SeriesRow(part.worker, _layout(tensors, columns), mode_step, part.at_ns, values)


@lru_cache(maxsize=256)
def _layout(tensors: tuple[TensorInfo, ...], columns: tuple[tuple[int, str], ...]) -> SeriesLayout:
    """Return the same object for equal layouts, as the reader does."""
    return SeriesLayout(tensors, columns)


def _array(part: RawTensors, name: str, mode_step: int) -> TensorArray:
    dtype, shape, data = part.tensors[name]
    values = np.frombuffer(data, TYPES[dtype].stored).reshape(shape)
    return TensorArray(part.worker, name, part.step, mode_step, lambda: values)
