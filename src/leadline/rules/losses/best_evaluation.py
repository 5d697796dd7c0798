"""The best evaluation of a run: which checkpoint to keep."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Final

from leadline.records.formatting import significant
from leadline.records.loss_roles import role_of
from leadline.records.metric_names import PRINTED, is_loss, is_upward, stem_of
from leadline.records.names import CHECKS
from leadline.rules import TensorReading, Window
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.losses.evaluations import Mean
from leadline.rules.robust import NORMAL_MAD, mad

_KEPT: Final = 101
"""The latest evaluations, which tell the noise."""
_MIN_NOISE: Final = 5
"""Evaluations whose differences tell a noise."""
_NOISES: Final = 5.0
"""A last evaluation that is worse than the best one by so many standard deviations is not so by chance."""
_OWN, _CAPTURED, _OTHER = range(3)
"""The loss of validation that the script or its trainer logs, that which is captured, and any other metric."""
_MEAN_SO_FAR: Final = "metrics/loss"
"""What Keras shows of an evaluation: the mean of its samples so far, which it compares as ``val_loss``."""
_Key = tuple[str, str]


@dataclass(slots=True)
class BestEvaluation:
    """A loss or metric of validation over all evaluations; in here smaller is better."""

    sign: float
    """-1 if more is better."""
    rank: int
    """Which kind it is; the lowest is nearest to what the script compares."""
    name: str
    """What it is called."""
    unit: str
    """What a training step is called."""
    is_mean_so_far: bool = False
    """Whether each value is the mean of the evaluation so far."""
    count: int = 0
    current: Mean = field(default_factory=Mean)
    values: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """The evaluations that have ended."""
    best: float = math.inf
    step: int = -1
    """The train step before the best of these."""
    latest: float = math.nan
    """The mean training loss before the current one; NaN: none was captured."""
    batches: tuple[float, float, float] = (math.inf, math.inf, math.inf)
    """The values of the current evaluation, and of the two before it; infinite: there was none.

    One before the training may be of a few batches, as a sanity check, and is none of these.
    """

    @staticmethod
    def note(known: dict[_Key, BestEvaluation], training: dict[str, Mean], window: Window) -> None:
        """Note the losses and metrics of a window, by worker and name.

        Args:
            training: By worker, the losses of training since the latest evaluation.
        """
        for reading in window.readings("value"):
            rank = _rank(reading)
            if rank is None or CHECKS in reading.collections or not math.isfinite(reading.value):
                continue
            role, stem = role_of(reading.tensor, reading.mode, reading.collections)
            of_worker = training.setdefault(reading.worker, Mean())
            if role == "train" and "losses" in reading.collections:
                of_worker.add(reading.value)
            elif role == "validation":
                key = (reading.worker, reading.tensor)
                if key not in known:
                    shared = f"validation {'loss' if rank == _CAPTURED else stem}"
                    name = shared if reading.tensor == stem else reading.tensor
                    unit = "round" if is_from_booster(reading) else "step"
                    sign = -1.0 if is_upward(reading.tensor) else 1.0
                    is_so_far = reading.tensor == _MEAN_SO_FAR
                    known[key] = BestEvaluation(sign, rank, "val_loss" if is_so_far else name, unit, is_so_far)
                known[key]._add(reading, window.step, of_worker)

    def _add(self, reading: TensorReading, step: int, training: Mean) -> None:
        if self.current.count and self.current.step != step:
            self._end()
        if not self.current.count:
            self.count += 1
            is_first_after_training = math.isnan(self.latest) and not math.isnan(training.value)
            self.batches = (0, math.inf if is_first_after_training else self.batches[0], self.batches[1])
            self.current.step, self.latest = step, training.value
            training.is_read = True
        now, before, second = self.batches
        self.batches = (now + 1, before, second)
        is_usual = before == second or (math.isinf(second) and not math.isnan(self.latest))
        if now < before or not is_usual:  # what follows as many batches as usual is of another set: the test
            self.current.is_read |= self.is_mean_so_far
            self.current.add(self.sign * reading.value)

    def _end(self) -> None:
        """End the current evaluation."""
        self.values.append(self.current.value)
        if self.current.value < self.best:
            self.best, self.step = self.current.value, self.current.step
        self.current = Mean()

    def describe(self) -> str:
        """``best of 12 evaluations: step 300, val_loss 0.42 (noise 0.01)``."""
        last = self.current.value
        is_last = last < self.best
        step, best = (self.current.step, last) if is_last else (self.step, self.best)
        evaluations = [*self.values, last]
        noise, is_trend = _noise_of(evaluations), _is_trend(evaluations)
        most = "at most " if is_trend else ""
        about = f"noise {most}{significant(noise)}" if noise is not None else "too few for their noise"
        text = f"best of {self.count:,} evaluations: {self.unit} {step:,}, {self.name} {self._shown(best)} ({about})"
        if is_last:
            return text
        if noise is not None and not is_trend and last - best <= _NOISES * noise:
            return f"{text}; the last one, {self._shown(last)}, is no worse by more than the noise explains"
        return f"{text}; the last one is {self._shown(last)}"

    def _shown(self, value: float) -> str:
        return significant(self.sign * value + 0.0)


def best_evaluation(known: Mapping[_Key, BestEvaluation]) -> str:
    """Return the best evaluation of a run, by its loss of the lowest rank, or else metric; empty: there is none."""
    compared = sorted(
        (one for one in known.values() if one.count > 1), key=lambda one: (not one.is_mean_so_far, one.rank)
    )
    return compared[0].describe() if compared else ""


def _rank(reading: TensorReading) -> int | None:
    """Return how near a value is to what the script compares; None: not at all.

    A loss that was logged without ``val`` or the like in its name may be that of training.
    """
    if "losses" in reading.collections:
        return _CAPTURED
    if "metrics" not in reading.collections or is_upward(reading.tensor) is None:
        return None
    if not is_loss(reading.tensor) or reading.tensor == _MEAN_SO_FAR:
        return _OTHER
    if stem_of(reading.tensor)[0] != "validation":
        return None
    return _OTHER if PRINTED in reading.collections else _OWN


def _noise_of(values: list[float]) -> float | None:
    """Return the standard deviation of evaluations about their trend; None: there are too few."""
    if len(values) < _MIN_NOISE:
        return None
    steps = [after - before for before, after in pairwise(values)]
    return NORMAL_MAD * mad(steps, median(steps)) / math.sqrt(2)


def _is_trend(values: list[float]) -> bool:
    """Return whether the differences between evaluations are those of a curve: most of two in a row are on one side.

    Of noise about a straight line, two of three times the next one is on the other side of their median.
    """
    steps = [after - before for before, after in pairwise(values)]
    usual = median(steps) if steps else 0.0
    return sum((one - usual) * (other - usual) < 0 for one, other in pairwise(steps)) * 2 <= len(steps) - 1
