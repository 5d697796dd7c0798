"""Reductions of many small tensors on the host in one pass: their elements side by side in float64, a segment each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels.stacks import StackPlan, TensorStack
from leadline.statistics.definitions import find_statistic
from leadline.statistics.primaries import PRIMARIES

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def reduce_segments(plan: StackPlan, tensors: Sequence[torch.Tensor], wanted: frozenset[str]) -> dict[str, Vector]:
    """Reduce the stacked tensors of a plan to every primary, to the sum, and to the number of non-finite elements.

    Shape:
        Every result: ``(len(tensors),)``; NaN for tensors that are not stacked, counts 0. The sum may be NaN if it is
        not wanted.
    Not a number:
        As defined in ``statistics.definitions``.
    """
    parts: dict[str, list[Vector]] = {}
    buffer = plan.buffer()
    scratch = np.empty(len(buffer))
    with np.errstate(all="ignore"):
        for block in plan.blocks:
            elements = block.elements([stack.gather(tensors) for stack in block.stacks], buffer)
            found = _finite_squares(block, elements) if wanted == _SQUARES else None
            for name, values in (found or _Kernels(block, elements, scratch).run(wanted)).items():
                parts.setdefault(name, []).append(values)
    names = {"sum", "nonfinite_count", *wanted}
    reduced = {name: np.full(len(tensors), 0.0 if name in _COUNTS else np.nan) for name in names}
    for name, of_blocks in parts.items():
        reduced[name][plan.owners] = np.concatenate(of_blocks)
    return reduced


def norms_of_change(
    plan: StackPlan, before: Sequence[Sequence[torch.Tensor]], after: Sequence[torch.Tensor]
) -> tuple[Vector, Vector]:
    """Return the l2 of the stacked tensors' change, and of the tensors before it.

    Shape:
        before: the gathered elements of each stack of each block; after: all tensors of the plan. Results:
        ``(len(after),)``, NaN for tensors that are not stacked.
    Not a number:
        NaN and infinite elements propagate to the results.
    """
    norms = np.full((2, len(after)), np.nan)
    buffers = plan.buffer(), plan.buffer()
    squares: list[Vector] = []
    with np.errstate(all="ignore"):
        for block, copies in zip(plan.blocks, before, strict=True):
            old = block.elements(copies, buffers[0])
            change = block.elements([stack.gather(after) for stack in block.stacks], buffers[1])
            change -= old
            change *= change
            old *= old
            squares.append(np.stack([np.add.reduceat(change, block.starts), np.add.reduceat(old, block.starts)]))
        if squares:
            norms[:, plan.owners] = np.sqrt(np.concatenate(squares, axis=1))
    return norms[0], norms[1]


def _finite_squares(block: TensorStack, elements: Vector) -> dict[str, Vector] | None:
    """Return the sums of squares of finite elements, in half the time of ``_Kernels``; None if one is not finite."""
    alike = [elements[stack.start : stack.end].reshape(stack.count, -1) for stack in block.stacks]
    squares = np.concatenate([np.einsum("ij,ij->i", values, values) for values in alike])
    if not np.isfinite(squares).all():
        return None
    return {"sum": np.full(len(squares), np.nan), "nonfinite_count": np.zeros(len(squares)), "squares": squares}


class _Kernels:
    """Runs kernels on the elements of one block; their results have one number per segment."""

    def __init__(self, block: TensorStack, elements: Vector, scratch: Vector) -> None:
        """
        Args:
            scratch: Memory that the kernels may overwrite, at least as large as the elements.
        """
        self._starts, self._lengths = block.starts, block.lengths
        self._elements, self._scratch = elements, scratch[: len(elements)]
        self._total: Vector = np.add.reduceat(elements, block.starts)
        self._finite: Mask | None = None
        """Mask of the finite elements; None: all are."""
        self._nonfinite = np.zeros(len(block.starts))
        if not np.isfinite(self._total).all():
            self._finite = np.isfinite(elements)
            self._nonfinite = self._count(~self._finite)

    def run(self, wanted: frozenset[str]) -> dict[str, Vector]:
        results = {"sum": self._total, "nonfinite_count": self._nonfinite}
        elements = self._elements
        if "min" in wanted:
            results["min"] = self._extreme(np.minimum, elements, np.inf)
        if "max" in wanted:
            results["max"] = self._extreme(np.maximum, elements, -np.inf)
        if "l1" in wanted or "abs_min" in wanted:
            moduli = np.abs(elements, out=self._scratch)
            if "l1" in wanted:
                results["l1"] = np.add.reduceat(moduli, self._starts)
            if "abs_min" in wanted:
                results["abs_min"] = self._extreme(np.minimum, moduli, np.inf)
        if "squares" in wanted:
            results["squares"] = self._sum_of_squares(elements)
        if "centred" in wanted:
            means = np.repeat(self._total / self._lengths, self._lengths)
            results["centred"] = self._sum_of_squares(np.subtract(elements, means, out=means))
        if "zeros" in wanted:
            results["zeros"] = self._count(elements == 0)
        if "prod" in wanted:
            results["prod"] = np.multiply.reduceat(elements, self._starts)
        if "nan_count" in wanted:
            results["nan_count"] = self._nonfinite if self._finite is None else self._count(np.isnan(elements))
        for name in wanted - PRIMARIES.keys():
            bounds = find_statistic(name).arguments
            results[name] = self._count((elements >= bounds[0]) & (elements <= bounds[-1]))
        return results

    def _count(self, mask: Mask) -> Vector:
        if not mask.any():
            return np.zeros(len(self._starts))
        counts: Vector = np.add.reduceat(mask, self._starts, dtype=np.float64)
        return counts

    def _sum_of_squares(self, values: Vector) -> Vector:
        squares: Vector = np.add.reduceat(np.multiply(values, values, out=self._scratch), self._starts)
        return squares

    def _extreme(self, reducer: np.ufunc, values: Vector, neutral: float) -> Vector:
        """Reduce the finite elements; all elements of a segment without any."""
        if self._finite is None:
            return reducer.reduceat(values, self._starts)
        extremes: Vector = reducer.reduceat(np.where(self._finite, values, neutral), self._starts)
        return np.where(self._nonfinite < self._lengths, extremes, reducer.reduceat(values, self._starts))


_SQUARES: Final = frozenset({"squares"})
_COUNTS: Final = frozenset({"nan_count", "nonfinite_count"})
