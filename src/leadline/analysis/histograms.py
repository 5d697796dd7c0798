"""Histograms of a tensor over steps, brought to one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.errors import DamagedRunError, NotCapturedError

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.reader.tensor import Tensor

    Floats = npt.NDArray[np.float64]

MOST: Final = 1e38
"""Larger magnitudes cannot be drawn."""
_ALIKE: Final = 1e-5
"""Of their magnitude: values that lie closer are drawn as one."""
_NAMES: Final = ("histogram_exact", "histogram")


@dataclass(frozen=True, slots=True)
class Histograms:
    """How the values of a tensor were spread at each step.

    Shape:
        ``edges``: ``(bins + 1,)``, ascending; ``counts``: ``(steps, bins)``.
    """

    tensor: str
    steps: tuple[int, ...]
    edges: Floats
    counts: Floats
    """Of finite elements; where only a sample was counted, the sample's."""

    def shares(self) -> Floats:
        """Of all counted elements of a step, ``(steps, bins)``; zeros where none was finite."""
        whole = self.counts.sum(axis=1, keepdims=True)
        shares: Floats = np.divide(self.counts, whole, out=np.zeros_like(self.counts), where=whole > 0)
        return shares


def read_histograms(tensor: Tensor, *, worker: str | None = None, points: int = 60, bins: int = 60) -> Histograms:
    """The histograms of a tensor: as captured, else computed from the tensor as it was stored.

    Each step's bins lie between its own least and most; here their counts are spread evenly over bins that all steps
    share.

    Args:
        worker: Of which worker; None: the first that has them.
        points: At most so many steps, evenly chosen.
        bins: Of the shared axis.
    """
    steps = tensor.steps()
    if len(steps) > points:
        steps = [steps[place] for place in np.unique(np.linspace(0, len(steps) - 1, points).round().astype(int))]
    rows: dict[int, Floats] = {}
    for step in steps:
        found = _histogram(tensor, step, worker)
        if found is not None and np.isfinite(found[:2]).all():
            rows[step] = found
    if not rows:
        return Histograms(tensor.name, (), np.zeros(1), np.zeros((0, 0)))
    edges = even_edges(min(each[0] for each in rows.values()), max(each[1] for each in rows.values()), bins)
    counts = np.stack([_spread(each, edges) for each in rows.values()])
    return Histograms(tensor.name, tuple(rows), edges, counts)


def even_edges(low: float, high: float, bins: int) -> Floats:
    """Edges of equally wide bins; around values that are as good as alike they are as wide as can be told apart.

    Shape:
        Result: ``(bins + 1,)``.
    """
    low, high = (float(np.clip(each, -MOST, MOST)) for each in (low, high))
    largest = max(abs(low), abs(high))
    if high - low <= _ALIKE * largest or high <= low:
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


def _spread(found: Floats, edges: Floats) -> Floats:
    """Counts between a least and a most, as counts between other edges."""
    low, high, counts = found[0], found[1], found[2:]
    if high <= low:
        place = min(int(np.searchsorted(edges, low, side="right")) - 1, len(edges) - 2)
        shared = np.zeros(len(edges) - 1)
        shared[place] = counts.sum()
        return shared
    below = np.concatenate([[0.0], np.cumsum(counts)])
    until = np.interp(edges, np.linspace(low, high, len(counts) + 1), below)
    spread: Floats = np.diff(until)
    return spread
