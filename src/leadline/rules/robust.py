"""Statistics that are robust against outliers: the median absolute deviation, the Mann-Kendall test, a slope."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

NORMAL_MAD: Final = 1.4826
"""Factor from the median absolute deviation to the standard deviation, for normally distributed values."""


def finite(values: Iterable[float]) -> list[float]:
    """Return the finite values, in order."""
    values = list(values)
    if all(map(math.isfinite, values)):
        return values
    return [value for value in values if math.isfinite(value)]


def mad(values: Sequence[float], centre: float) -> float:
    """Return the median absolute deviation of finite values from ``centre``.

    Raises:
        ValueError: There are no values.
    """
    return median([abs(value - centre) for value in values])


@dataclass(frozen=True, slots=True)
class Trend:
    """The result of a Mann-Kendall test."""

    score: int
    """The number of rising pairs minus the number of falling pairs."""
    z: float
    """The score in standard deviations of the score of values without a trend; 0 if all values are equal."""

    def p_of_falling(self) -> float:
        """Return the p-value of a falling trend, 0 to 1."""
        return 0.5 * math.erfc(-self.z / math.sqrt(2.0))

    def p_of_rising(self) -> float:
        """Return the p-value of a rising trend, 0 to 1."""
        return 0.5 * math.erfc(self.z / math.sqrt(2.0))


def theil_sen(places: Sequence[float], values: Sequence[float]) -> float:
    """Return the Theil-Sen slope: the median of the slopes of all pairs of values.

    Args:
        places: Where the values are, finite and increasing.
        values: Finite values, as many, at least two.
    Source:
        Sen, "Estimates of the regression coefficient based on Kendall's tau", 1968.
    """
    points = list(zip(places, values, strict=True))
    return median((y - before) / (x - place) for (place, before), (x, y) in combinations(points, 2))


def mann_kendall(values: Sequence[float]) -> Trend:
    """Run the Mann-Kendall test for a trend, with the correction for ties.

    Args:
        values: Finite values in order of time.
    Source:
        Mann 1945; Kendall 1975; Gilbert, "Statistical Methods for Environmental Pollution Monitoring", 16.4.
    """
    count, score = len(values), 0
    earlier: list[float] = []
    for value in values:
        smaller, larger = bisect_left(earlier, value), len(earlier) - bisect_right(earlier, value)
        score += smaller - larger
        insort(earlier, value)
    ties = Counter(values).values()
    variance = (count * (count - 1) * (2 * count + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    if score == 0 or variance <= 0:
        return Trend(score, 0.0)
    return Trend(score, (score - math.copysign(1, score)) / math.sqrt(variance))
