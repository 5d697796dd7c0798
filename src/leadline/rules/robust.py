"""Statistics that a few wild values do not move: median, median absolute deviation, and the Mann-Kendall trend."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

NORMAL_MAD: Final = 1.4826
"""What the median absolute deviation is multiplied by to give the standard deviation of normal values."""


def finite(values: Iterable[float]) -> list[float]:
    """Those that are neither NaN nor infinite, in order."""
    return [each for each in values if math.isfinite(each)]


def median(values: Sequence[float]) -> float:
    """The middle of finite values, or the mean of the two.

    Raises:
        ValueError: There are none.
    """
    if not values:
        raise ValueError("no values have no median")
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def mad(values: Sequence[float], centre: float) -> float:
    """The median absolute deviation of finite values from their ``centre``.

    Raises:
        ValueError: There are none.
    """
    return median([abs(each - centre) for each in values])


@dataclass(frozen=True, slots=True)
class Trend:
    """Whether values rise or fall from first to last."""

    score: int
    """Pairs that rise less pairs that fall."""
    z: float
    """The score in standard deviations of what trendless values give; 0 where all are alike."""

    def p_of_falling(self) -> float:
        """How likely trendless values are to fall so clearly, 0 to 1."""
        return 0.5 * math.erfc(-self.z / math.sqrt(2.0))

    def p_of_rising(self) -> float:
        """How likely trendless values are to rise so clearly, 0 to 1."""
        return 0.5 * math.erfc(self.z / math.sqrt(2.0))


def mann_kendall(values: Sequence[float]) -> Trend:
    """The Mann-Kendall test for a trend, with the correction for ties.

    Args:
        values: Finite values in the order of time.
    Source:
        Mann 1945; Kendall 1975; Gilbert, "Statistical Methods for Environmental Pollution Monitoring", 16.4.
    """
    count, score = len(values), 0
    earlier: list[float] = []
    for each in values:
        smaller, larger = bisect_left(earlier, each), len(earlier) - bisect_right(earlier, each)
        score += smaller - larger
        insort(earlier, each)
    ties = Counter(values).values()
    variance = (count * (count - 1) * (2 * count + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    if score == 0 or variance <= 0:
        return Trend(score, 0.0)
    return Trend(score, (score - math.copysign(1, score)) / math.sqrt(variance))
