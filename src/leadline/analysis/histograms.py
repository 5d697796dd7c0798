"""Histograms of a tensor over steps, on a common axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.errors import DamagedRunError, NotCapturedError
from leadline.statistics.histograms import redistribute

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.reader.tensor import Tensor

    Floats = npt.NDArray[np.float64]

MAX_MAGNITUDE: Final = 1e38
"""Larger magnitudes cannot be drawn."""
_RELATIVE_TOLERANCE: Final = 1e-5
"""Values that differ by less, relative to their magnitude, are drawn as one."""
_NAMES: Final = ("histogram_exact", "histogram")


@dataclass(frozen=True, slots=True)
class Histograms:
    """The histogram of a tensor at each step.

    Shape:
        ``edges``: ``(bins + 1,)``, ascending; ``counts``: ``(steps, bins)``.
    """

    tensor: str
    steps: tuple[int, ...]
    edges: Floats
    counts: Floats
    """The counts of finite elements; counts of a sample if only a sample was counted."""

    def shares(self) -> Floats:
        """Return the share of each bin in the elements of a step, ``(steps, bins)``; zeros if none was finite."""
        whole = self.counts.sum(axis=1, keepdims=True)
        shares: Floats = np.divide(self.counts, whole, out=np.zeros_like(self.counts), where=whole > 0)
        return shares


def read_histograms(tensor: Tensor, *, worker: str | None = None, points: int = 60, bins: int = 60) -> Histograms:
    """Read the histograms of a tensor, as captured or computed from the raw tensor.

    The bins of each step range from its minimum to its maximum; their counts are redistributed evenly to common bins.

    Args:
        worker: The worker; None for the first worker that captured them, or for the whole of a sharded tensor.
        points: The maximum number of steps, chosen at equal distances.
        bins: The number of common bins.
    """
    steps = tensor.steps()
    if len(steps) > points:
        steps = [steps[index] for index in np.unique(np.linspace(0, len(steps) - 1, points).round().astype(int))]
    rows: dict[int, Floats] = {}
    for step in steps:
        histogram = _histogram(tensor, step, worker)
        if histogram is not None and np.isfinite(histogram[:2]).all():
            rows[step] = histogram
    if not rows:
        return Histograms(tensor.name, (), np.zeros(1), np.zeros((0, 0)))
    edges = even_edges(min(row[0] for row in rows.values()), max(row[1] for row in rows.values()), bins)
    counts = np.stack([redistribute(row, edges) for row in rows.values()])
    return Histograms(tensor.name, tuple(rows), edges, counts)


def even_edges(low: float, high: float, bins: int) -> Floats:
    """Return the edges of bins of equal width; the range is padded around values that are nearly equal.

    Shape:
        Result: ``(bins + 1,)``.
    """
    low, high = (float(np.clip(bound, -MAX_MAGNITUDE, MAX_MAGNITUDE)) for bound in (low, high))
    largest = max(abs(low), abs(high))
    if high - low <= _RELATIVE_TOLERANCE * largest or high <= low:
        pad = max(0.5, 1e-3 * largest)
        low, high = low - pad, high + pad
    edges: Floats = np.linspace(low, high, bins + 1)
    return edges


def _histogram(tensor: Tensor, step: int, worker: str | None) -> Floats | None:
    for name in _NAMES:
        try:
            return tensor.statistic_array(name, step, worker)
        except (NotCapturedError, DamagedRunError):
            continue
    return None
