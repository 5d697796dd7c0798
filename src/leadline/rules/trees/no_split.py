"""The rule no_split."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar, Final

from leadline.records.formatting import significant
from leadline.rules import Advice, Clear, Needs, Rule, TensorNeed, TensorReading, Undecided, Verdict, Window
from leadline.rules.booster_detection import PREDICTIONS
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import fired

_SPLITS: Final = re.compile(r"(?:^|/)feature_importance/(weight|split)/")
"""The number of splits by each feature in all trees, in XGBoost's and in LightGBM's words."""
_GAIN: Final = re.compile(r"(?:^|/)feature_importance/gain/")
"""Linear boosters have coefficients for weights, and no gain."""
_SUGGESTIONS: Final = {
    "weight": Advice(
        "a smaller min_child_weight or {min_gain}, or a larger scale of labels and sample weights; usually each side "
        "of a split has less than min_child_weight, a sum of hessians (at most 1/4 a sample for a logistic loss, less "
        "with small sample weights), or no split gains as much as gamma asks"
    ),
    "split": Advice(
        "a smaller min_data_in_leaf, min_sum_hessian_in_leaf or min_gain_to_split; usually the data are few for the 20 "
        "samples that a leaf needs by default, or labels or sample weights have a small scale"
    ),
}


class NoSplit(Rule, frozen=True, kw_only=True):
    """Fires when no tree of a booster has a split, so that it predicts the same for every sample.

    Why it matters:
        Each tree is a single leaf: more rounds change nothing. Settings that forbid every split raise no error.
    How it decides:
        Fires if the number of splits by each feature, over all trees, is 0 after ``rounds`` rounds.
    Not a number:
        A number of splits that is NaN or infinite is not evaluated.
    Blind spots:
        Trees that have no split any more after others that had are not found: a booster that fits its data well
        ends like that. A booster that continues another one counts the splits of both. Linear boosters have none.
    Args:
        rounds: Rounds without a split, >= 1; trees of samples drawn at random may differ.
    Source:
        Ours.
    """

    explains: ClassVar[tuple[str, ...]] = ("metric_not_improving",)

    rounds: PositiveInt = 10

    def needs(self) -> Needs:
        return Needs(
            (
                TensorNeed("feature_importance", r"feature_importance/(weight|split|gain)/", statistics=("value",)),
                TensorNeed("predictions", statistics=("min", "max"), is_optional=True),
            )
        )

    def remember(self, memory: Any, window: Window) -> dict[str, float]:
        """Return the prediction for all samples of each worker, where they are the same."""
        lowest = {reading.worker: reading.value for reading in window.readings("min") if _is_prediction(reading)}
        highest = {reading.worker: reading.value for reading in window.readings("max") if _is_prediction(reading)}
        same = {worker: value for worker, value in lowest.items() if highest.get(worker) == value}
        return {**(memory or {}), **same}

    def evaluate(self, window: Window) -> Verdict:
        by_worker: dict[str, dict[str, float]] = {}
        kinds: dict[str, str] = {}
        gains: set[str] = set()
        for reading in window.readings("value"):
            match = _SPLITS.search(reading.tensor)
            if match and math.isfinite(reading.value):
                by_worker.setdefault(reading.worker, {})[reading.tensor] = reading.value
                kinds[reading.worker] = match[1]
            elif _GAIN.search(reading.tensor):
                gains.add(reading.worker)
        splits = {worker: sum(counts.values()) for worker, counts in by_worker.items() if worker in gains}
        if not splits:
            return Undecided("no splits of trees were counted at this step")
        without = [worker for worker, count in splits.items() if count == 0]
        if not without:
            return Clear()
        if window.step + 1 < self.rounds:
            return Undecided(f"{window.step + 1:,} of {self.rounds:,} rounds", stage="suspected")
        worker = without[0]
        same = window.memory.get(worker)
        constant = f", and every prediction is {significant(same)}" if same is not None else ""
        return fired(
            f"no tree has a split after {window.step + 1:,} rounds: each is a single leaf{constant}",
            *by_worker[worker],
            advice=_SUGGESTIONS[kinds[worker]],
            evidence={"rounds": window.step + 1, "features": len(by_worker[worker])},
            worker=worker,
            since_step=0,
        )


def _is_prediction(reading: TensorReading) -> bool:
    return reading.tensor == PREDICTIONS
