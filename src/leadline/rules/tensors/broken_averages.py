"""The rule broken_averages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from leadline.records.names import CHECKS, INITIAL_AVERAGE, INITIAL_AVERAGES, NONFINITE_AVERAGE, NONFINITE_AVERAGES
from leadline.rules import (
    Advice,
    Clear,
    Fired,
    Needs,
    NotApplicable,
    Rule,
    TensorNeed,
    TensorReading,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import and_more, fired, suspected

_EVERY: Final = 10
_NONFINITE_ADVICE: Final = Advice(
    "a check of each batch before the model is given it, and reset_running_stats() on the layer or the last good "
    "checkpoint; usually a batch with a value that is not finite, or an overflow of half precision, whose update was "
    "skipped: averages are updated by the forward pass, and never become finite again"
)
_START_ADVICE: Final = Advice(
    "a momentum above 0 (0.1) and track_running_stats as the layers were made with; usually one of them was changed to "
    "freeze the averages, for which eval() on the layers is meant"
)


@dataclass(slots=True)
class _Known:
    """The averages of a worker's models so far."""

    finite: dict[str, int] = field(default_factory=dict)
    """By optimizer the last step at which all averages were finite."""
    since: dict[str, int] = field(default_factory=dict)
    """By optimizer the first step since then at which some were not."""
    in_a_row: dict[str, int] = field(default_factory=dict)
    """By optimizer the captures in a row at which averages were those of the start."""
    is_finite: bool = False
    """Whether the latest loss of a training is finite."""


class BrokenAverages(Rule, frozen=True, kw_only=True):
    """Fires when running averages of batch normalization are not finite, or are never updated.

    Why it matters:
        A training normalizes by the statistics of each batch, so that its loss shows nothing. Evaluation uses the
        averages: the validation is NaN, or that of a model that has never seen the data.
    How it decides:
        Looks at the running mean and variance of each batch or instance normalization of a trained model. Fires if one
        has an element that is not finite while the loss of the training is finite (where it is not, see
        ``nonfinite_origin``); and if at ``patience`` captures in a row every mean of a layer is exactly 0 and every
        variance exactly 1, as they are when it is made, although it is in training mode and its weight has a gradient:
        one batch with a momentum above 0 changes both.
    Not a number:
        This is what the rule detects.
    Blind spots:
        Averages that are updated, but too slowly or too fast for the evaluation. Those that were loaded and are not
        updated any more are taken as frozen on purpose; that averages of a frozen layer change is a remark of
        ``eval_in_train_mode``. What is on an accelerator is known at the next capture. PyTorch only.
    Args:
        patience: Captures in a row at which averages are those of the start, >= 1.
    Source:
        Ours; Ioffe and Szegedy, "Batch normalization", 2015.
    """

    explains: ClassVar[tuple[str, ...]] = (
        "exploding_tensor",
        "rising_validation_loss",
        "generalization_gap",
        "metric_not_improving",
    )

    patience: PositiveInt = 3

    def needs(self) -> Needs:
        regex = f"/({NONFINITE_AVERAGES}?|{INITIAL_AVERAGES}?)$"
        return Needs(
            (
                TensorNeed(CHECKS, regex=regex, statistics=("value",), modes=("train",), every=_EVERY),
                TensorNeed("losses", statistics=("value",), modes=("train",), is_optional=True),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[str, _Known]:
        workers: dict[str, _Known] = memory or {}
        for reading in window.readings("value"):
            known = workers.setdefault(reading.worker, _Known())
            if "losses" in reading.collections:
                known.is_finite = math.isfinite(reading.value)
            elif _is_of(reading, NONFINITE_AVERAGES):
                optimizer = reading.tensor.rpartition("/")[0]
                if reading.value:
                    known.since.setdefault(optimizer, window.step)
                else:
                    known.finite[optimizer] = window.step
                    known.since.pop(optimizer, None)
            elif _is_of(reading, INITIAL_AVERAGES):
                known.in_a_row[reading.tensor] = known.in_a_row.get(reading.tensor, 0) + 1 if reading.value else 0
        return workers

    def evaluate(self, window: Window) -> Verdict:
        readings = [reading for reading in window.readings("value") if CHECKS in reading.collections]
        totals = [reading for reading in readings if _is_of(reading, NONFINITE_AVERAGES) and reading.value >= 0]
        if not totals:
            return NotApplicable("no trained model has averages") if readings else Undecided("no model was seen")
        workers: dict[str, _Known] = window.memory
        nonfinite = [total for total in totals if total.value]
        judged = [total for total in nonfinite if workers[total.worker].is_finite]
        if judged:
            return self._of_nonfinite(
                judged[0], workers[judged[0].worker], _names(readings, judged[0], NONFINITE_AVERAGE)
            )
        initial = [reading for reading in readings if _is_of(reading, INITIAL_AVERAGES) and reading.value]
        most = max((workers[total.worker].in_a_row[total.tensor] for total in initial), default=0)
        if most >= self.patience:
            return self._of_start(initial[0], _names(readings, initial[0], INITIAL_AVERAGE))
        if most:
            return suspected(most, self.patience)
        return Undecided("neither the averages nor the loss are finite") if nonfinite else Clear()

    def _of_nonfinite(self, total: TensorReading, known: _Known, averages: list[str]) -> Fired:
        optimizer = total.tensor.rpartition("/")[0]
        before, step = known.finite.get(optimizer), known.since[optimizer]
        when = f"since step {step:,}" if before is None else f"since a step from {before + 1:,} to {step:,}"
        return fired(
            f"{averages[0]} is not finite {when}, though the loss is: evaluation uses it"
            f"{and_more(len(averages) - 1, 'average')}",
            *averages,
            advice=_NONFINITE_ADVICE,
            evidence={"nonfinite_averages": int(total.value), "step": step},
            worker=total.worker,
            since_step=step,
        )

    def _of_start(self, total: TensorReading, layers: list[str]) -> Fired:
        return fired(
            f"the running averages of {layers[0]} are exactly 0 and 1, as at the start, though it trains: evaluation "
            f"uses them{and_more(len(layers) - 1, 'layer')}",
            *layers,
            advice=_START_ADVICE,
            evidence={"initial_averages": int(total.value)},
            worker=total.worker,
        )


def _names(readings: list[TensorReading], total: TensorReading, check: str) -> list[str]:
    """Return the averages, or layers, that a check has found on the worker of a total; if none, the optimizer."""
    found = [one.tensor.rpartition("/")[0] for one in readings if _is_of(one, check) and one.worker == total.worker]
    return found or [total.tensor.rpartition("/")[0]]


def _is_of(reading: TensorReading, check: str) -> bool:
    """Return whether a check has found, or counted, something."""
    return reading.tensor.endswith(f"/{check}")
