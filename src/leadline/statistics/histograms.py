"""Histograms as they are captured, on other bins: minimum, maximum, and the counts of the bins between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from leadline.statistics.definitions import HISTOGRAM_BINS

Floats = npt.NDArray[np.float64]


def redistribute(histogram: Floats, edges: Floats) -> Floats:
    """Redistribute the counts of a histogram to other bins, as if they were spread evenly over each of its own.

    Shape:
        histogram: ``(2 + bins,)``; edges: ``(n + 1,)``, ascending; result: ``(n,)``.
    """
    low, high, counts = histogram[0], histogram[1], histogram[2:]
    if high <= low:
        index = min(int(np.searchsorted(edges, low, side="right")) - 1, len(edges) - 2)
        shared = np.zeros(len(edges) - 1)
        shared[index] = counts.sum()
        return shared
    cumulative_counts = np.concatenate([[0.0], np.cumsum(counts)])
    cumulative = np.interp(edges, np.linspace(low, high, len(counts) + 1), cumulative_counts)
    counts_by_bin: Floats = np.diff(cumulative)
    return counts_by_bin


def merged(histograms: Sequence[Floats], elements: Sequence[float]) -> Floats:
    """Return the histogram of the union of some arrays.

    Args:
        elements: The number of finite elements of each array; of a large one, only a sample was counted.

    Shape:
        histograms: each ``(2 + bins,)``; result: ``(2 + HISTOGRAM_BINS,)``, NaN and zeros if no element is finite.
    """
    found = [(one, count / one[2:].sum()) for one, count in zip(histograms, elements, strict=True) if one[2:].any()]
    if not found:
        return np.array([np.nan, np.nan, *np.zeros(HISTOGRAM_BINS)])
    low, high = min(one[0] for one, _ in found), max(one[1] for one, _ in found)
    if high <= low:  # as of one constant tensor, all are in the middle bin
        counts = np.zeros(HISTOGRAM_BINS)
        counts[HISTOGRAM_BINS // 2] = sum(scale * one[2:].sum() for one, scale in found)
    else:
        edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
        counts = np.sum([scale * redistribute(one, edges) for one, scale in found], axis=0)
    return np.array([low, high, *counts])
