"""The axis of train steps: where each step of a worker stands on it, computed from both counts of its records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.records.names import MODES

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.reader.segments import Range

    Integers = npt.NDArray[np.int64]

Stamps = tuple[str, "Integers", "Integers"]
"""A mode, the global steps of some of its records, and their steps within the mode."""
_NONE: Final = np.zeros(0, np.int64)
_FAR: Final = np.iinfo(np.int64).max


class StepAxis:
    """The train steps of one worker.

    A train step stands at its own number. A step of another mode stands at the train step that had been finished when
    it was taken, and before the first at 0. In a worker that never trains, the axis counts the steps of its first mode.

    Args:
        stamps: The stamps of the worker's records, in any order.
    """

    def __init__(self, stamps: Iterable[Stamps] = ()) -> None:
        by_mode: dict[str, list[tuple[Any, Any]]] = {}
        for mode, steps, mode_steps in stamps:
            by_mode.setdefault(mode, []).append((steps, mode_steps))
        self._stamps = {mode: _joined(by_mode[mode]) for mode in MODES if mode in by_mode}
        self._main = next(iter(self._stamps), "train")
        self._steps, self._positions, self._is_main = _placed(self._stamps, self._main)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of the records, that of the axis first."""
        return tuple(self._stamps)

    @property
    def is_identity(self) -> bool:
        """Whether every global step is a step of one mode, so that both counts are equal."""
        return len(self._stamps) < 2 and bool(np.all(self._steps == self._positions))

    def positions(self, steps: npt.ArrayLike, mode: str = "train") -> Integers:
        """Return where global steps of a mode stand."""
        wanted = np.asarray(steps, np.int64)
        if self.is_identity:
            return wanted
        is_main = np.bool_(mode == self._main)
        index = np.searchsorted(self._steps, wanted, side="right" if is_main else "left")
        before, position = self._before(index)
        limit = np.append(self._positions - (self._is_main & ~is_main), _FAR)[index]
        was_other = ~np.append(True, self._is_main)[index]
        since = np.maximum(wanted - before, was_other) if is_main else wanted - before - 1
        result: Integers = np.maximum(np.minimum(position + since, limit), 0)
        return result

    def position(self, step: int, mode: str = "train") -> int:
        """Return where one global step of a mode stands."""
        return int(self.positions([step], mode)[0])

    def mode_step(self, step: int, mode: str) -> int:
        """Return the step within its mode of a global step, as recorded, or else counted from the record before it."""
        steps, mode_steps = self._stamps.get(mode, (_NONE, _NONE))
        if mode == self._main or not len(steps):
            return self.position(step, mode)
        index = int(np.searchsorted(steps, step, side="right")) - 1
        if index < 0:
            return max(0, int(mode_steps[0] - (steps[0] - step)))
        return int(mode_steps[index] + (step - steps[index]))

    def last_step(self, mode: str, complete: int) -> int:
        """Return the last recorded step of a mode up to a global step; -1 if there is none."""
        steps, mode_steps = self._stamps.get(mode, (_NONE, _NONE))
        known = mode_steps[: int(np.searchsorted(steps, complete, side="right"))]
        return int(known.max()) if len(known) else -1

    def global_step(self, position: int) -> int:
        """Return the global step of a train step; of one that was not reached, the one that it would be."""
        if self.is_identity:
            return position
        index = int(np.searchsorted(self._positions, position))
        if index < len(self._steps) and self._is_main[index] and self._positions[index] == position:
            return int(self._steps[index])
        before, reached = self._before(np.array([index]))
        return int(before[0] + position - reached[0])

    def global_range(self, start: int | None, end: int | None) -> tuple[int | None, int | None]:
        """Return the global steps of what stands at ``start <= position < end``; None for no limit."""
        low = None if start is None or start <= 0 else self.global_step(start)
        is_reached = end is not None and len(self._positions) > 0 and end <= int(self._positions[-1])
        high = self.global_step(end) if end is not None and (is_reached or self.is_identity) else None
        return low, high

    def _before(self, index: npt.NDArray[np.intp]) -> tuple[Integers, Integers]:
        """Return the global step and the position of the records before some indices; before all others -1."""
        return np.append(-1, self._steps)[index], np.append(-1, self._positions)[index]


class TrainSteps:
    """The train steps of a worker by global step, while it is read: where the difference of the two changes."""

    def __init__(self) -> None:
        self._differences: list[tuple[int, int]] = []

    def add(self, steps: npt.NDArray[Any], train_steps: npt.NDArray[Any]) -> None:
        """Add records; the train step is -1 in other modes."""
        is_train = train_steps >= 0
        known, differences = steps[is_train], (steps - train_steps)[is_train]
        changes = np.append(True, differences[1:] != differences[:-1])[: len(known)]
        for step, difference in zip(known[changes].tolist(), differences[changes].tolist(), strict=True):
            index = bisect_right(self._differences, (step, difference))
            if index == 0 or self._differences[index - 1][1] != difference:
                self._differences.insert(index, (step, difference))

    def of(self, step: int) -> int:
        """Return the train step of a global step."""
        index = bisect_right(self._differences, (step, _FAR))
        return step - self._differences[index - 1][1] if index else step


class StepPlacer:
    """Places the steps of a run on the axis while they are read, in ascending order, as ``StepAxis`` does afterwards.

    Before the first train step, a step of another mode stands at its own number: the run may never train.
    """

    def __init__(self) -> None:
        self._last = -1
        self._unrecorded = 0
        self._others: dict[str, int] = {}

    def place(self, step: int, mode: str, mode_step: int | None) -> int:
        """Return where a global step stands.

        Args:
            mode_step: Its step within the mode; None: only its raw tensors were recorded.
        """
        if mode_step is None:
            return max(self._last, step - sum(self._others.values()) - self._unrecorded)
        if mode == "train":
            self._last = max(self._last, mode_step)
            self._unrecorded = step - mode_step - sum(self._others.values())
            return mode_step
        self._others[mode] = max(self._others.get(mode, 0), mode_step + 1)
        if self._last < 0:
            return mode_step
        return max(self._last, step - sum(self._others.values()) - self._unrecorded)


def _joined(parts: list[tuple[Any, Any]]) -> tuple[Integers, Integers]:
    """Return the steps of a mode and the steps within it, in ascending order, each once."""
    first, *others = parts
    different = [part for part in others if not all(map(np.array_equal, part, first))]
    steps, mode_steps = (np.concatenate(columns) for columns in zip(first, *different, strict=True))
    if np.any(steps[1:] <= steps[:-1]):
        order = np.lexsort((mode_steps, steps))
        steps, mode_steps = steps[order], mode_steps[order]
    is_new = np.append(True, (steps[1:] != steps[:-1]) | (mode_steps[1:] != mode_steps[:-1]))[: len(steps)]
    return steps[is_new], mode_steps[is_new]


def _placed(
    stamps: dict[str, tuple[Integers, Integers]], main: str
) -> tuple[Integers, Integers, npt.NDArray[np.bool_]]:
    """Return the global steps of all records in order, where they stand, and whether they are of the main mode.

    The global step counts the steps of all modes. So a record of another mode stands at its global step less the
    steps of other modes until then: those that had passed at the last train step, and those recorded since. Ranks of a
    job do not count other modes in the global step; there the last recorded train step is at least as late.
    """
    if not stamps:
        return _NONE, _NONE, np.zeros(0, bool)
    if len(stamps) == 1:
        steps, mode_steps = stamps[main]
        return steps, mode_steps, np.ones(len(steps), bool)
    columns: list[Integers] = [np.concatenate(parts) for parts in zip(*stamps.values(), strict=True)]
    modes = np.repeat(np.arange(len(stamps)), [len(of_mode) for of_mode, _ in stamps.values()])
    is_main = modes == list(stamps).index(main)
    order = np.lexsort((columns[1], is_main, columns[0]))
    steps, mode_steps, modes, is_main = columns[0][order], columns[1][order], modes[order], is_main[order]
    others = np.zeros(len(steps), np.int64)
    for mode in range(len(stamps)):
        if mode != list(stamps).index(main):
            others += np.maximum.accumulate(np.where(modes == mode, mode_steps + 1, 0))
    last = np.maximum.accumulate(np.where(is_main, mode_steps, -1))
    latest = np.maximum.accumulate(np.where(is_main, np.arange(len(steps)), -1))
    unrecorded = np.where(latest >= 0, (steps - mode_steps - others)[latest], 0)
    reached = np.maximum(last, steps - others - unrecorded)
    following = np.where(is_main, mode_steps, _FAR)[::-1]
    reached = np.minimum(reached, np.minimum.accumulate(following)[::-1] - 1)
    return steps, np.where(is_main, mode_steps, reached), is_main


def stamps_of(ranges: Iterable[Range]) -> Iterator[Stamps]:
    """Yield the stamps of the rows of series."""
    for batches in ranges:
        modes = np.asarray(batches.texts("mode"))
        for mode in np.unique(modes):
            rows = modes == mode
            yield str(mode), batches.numbers("step")[rows], batches.numbers("mode_step")[rows]
