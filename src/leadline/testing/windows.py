"""Windows for rules, made in memory, without a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from leadline.reader.view import Point, SeriesRow, View
from leadline.reader.window import Scan, TensorArray, Window
from leadline.records.series import SeriesLayout
from leadline.records.verdict import Verdict
from leadline.rules.rule import Rule
from leadline.testing.runs import SECOND_NS, START_NS, Capture, Raw, Vectors

_LITTLE_ENDIAN = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}


def verdicts(
    rule: Rule,
    parts: Iterable[Capture | Raw | Vectors],
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    thinned: bool = False,
) -> list[tuple[int, Verdict]]:
    """What a rule says at each step at which something that it needs was captured, with the step."""
    view = View(rule.needs().tensors)
    said: list[tuple[int, Verdict]] = []
    memory = None
    for point in points(parts, shapes=shapes or {}, thinned=thinned):
        window = view.show(point)
        if window is not None:
            window.memory = memory = rule.remember(memory, window)
            said.append((point.step, rule.evaluate(window)))
            view.keep()
    return said


def points(
    parts: Iterable[Capture | Raw | Vectors], *, shapes: Mapping[str, tuple[int, ...]], thinned: bool = False
) -> Iterator[Point]:
    """The points that parts make, in the order of their steps."""
    found: dict[tuple[int, str], Point] = {}
    for part in parts:
        point = found.setdefault((part.step, part.mode), Point(part.step, part.mode, is_thinned=thinned))
        if isinstance(part, Capture) and "skipped" in part.values.get("clock", {}):
            point.is_skipped = True
        elif isinstance(part, (Capture, Vectors)):
            point.rows.append(_row(part if isinstance(part, Capture) else part.capture, shapes))
        if isinstance(part, (Raw, Vectors)):
            raw = part if isinstance(part, Raw) else part.raw
            mode_step = part.step if isinstance(part, Raw) or part.mode_step is None else part.mode_step
            point.arrays += [_array(raw, name, mode_step) for name in raw.tensors]
    yield from (found[key] for key in sorted(found))


def scan(seconds: float, last_record_seconds: float | None, last_step: int = 0) -> Window:
    """A moment, so many seconds after the run's start, and when the last record before it was."""
    last_ns = None if last_record_seconds is None else START_NS + int(last_record_seconds * SECOND_NS)
    moment = Scan(START_NS + int(seconds * SECOND_NS), START_NS, last_ns, last_step)
    return Window(last_step, "train", moment.time_ns, scan=moment)


def _row(part: Capture, shapes: Mapping[str, tuple[int, ...]]) -> SeriesRow:
    names = list(part.values)
    tensors = tuple(part.info(each, shapes) for each in names)
    columns = tuple((index, each) for index, name in enumerate(names) for each in part.values[name])
    values = np.array([part.values[names[index]][each] for index, each in columns], dtype=np.float64)
    mode_step = part.step if part.mode_step is None else part.mode_step
    return SeriesRow(part.worker, SeriesLayout(tensors, columns), mode_step, part.at_ns, values)


def _array(part: Raw, name: str, mode_step: int) -> TensorArray:
    dtype, shape, data = part.tensors[name]
    values = np.frombuffer(data, _LITTLE_ENDIAN[dtype]).reshape(shape)
    return TensorArray(part.worker, name, part.step, mode_step, lambda: values)
