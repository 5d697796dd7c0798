"""What guessing reaches in the metrics of a booster's validation data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leadline.frameworks.boosting.booster import Booster
from leadline.records.loss_facts import GUESS_LEVEL, PERFECT_LEVEL
from leadline.statistics.guessing import Scored, guess_of


class Guesses:
    """The levels of the latest booster, which are computed once for the same labels and metrics."""

    def __init__(self) -> None:
        self._known: tuple[Scored, Sequence[str], dict[str, float]] | None = None

    def of(self, booster: Booster, scores: Sequence[str]) -> dict[str, float]:
        """Return the levels as facts, by their names; see ``leadline.records.loss_facts``.

        Args:
            scores: The names of the metrics of a round: ``<set>-<metric>``.
        """
        name, scored = booster.evaluation_name(), booster.scored()
        if name is None or scored is None:
            return {}
        known = self._known
        if known is None or known[1] != scores or not _are_equal(known[0], scored):
            known = self._known = (scored, scores, _levels(name, scored, scores))
        return known[2]


def _are_equal(one: Scored, other: Scored) -> bool:
    pairs = ((one.labels, other.labels), (one.weights, other.weights), (one.groups, other.groups))
    return one.quantiles == other.quantiles and all(
        before is now or (before is not None and now is not None and np.array_equal(before, now))
        for before, now in pairs
    )


def _levels(name: str, scored: Scored, scores: Sequence[str]) -> dict[str, float]:
    levels: dict[str, float] = {}
    for score in scores:
        set_name, _, metric = score.partition(f"{name}-")
        guess = guess_of(metric, scored) if metric and not set_name else None
        if guess is not None:
            levels |= {f"{score}/{GUESS_LEVEL}": guess.level, f"{score}/{PERFECT_LEVEL}": guess.perfect}
    return levels
