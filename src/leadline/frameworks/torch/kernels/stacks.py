"""Small tensors of one shape, gathered by one call, so that the cost of a capture does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

STACKED_ELEMENTS: Final = 1 << 14
"""Tensors up to this size are stacked; of larger ones the kernels cost more than their calls."""
_BLOCK_ELEMENTS: Final = 1 << 15
"""A quarter of a megabyte of float64, which stays in a core's cache with a buffer of the same size."""
_MAX_PLANS: Final = 16

_shape_of: Final[Callable[[torch.Tensor], torch.Size]] = attrgetter("shape")
_dtype_of: Final[Callable[[torch.Tensor], torch.dtype]] = attrgetter("dtype")
_layout_of: Final[Callable[[torch.Tensor], torch.layout]] = attrgetter("layout")


class Stack:
    """Some tensors of one shape and dtype."""

    def __init__(self, indices: Sequence[int], shape: torch.Size, start: int) -> None:
        """
        Args:
            indices: Their places in the list of all tensors.
            start: Number of elements before them in their block.
        """
        self.indices, self.count = indices, len(indices)
        self._pick = itemgetter(*indices)
        self._is_scalar = not shape
        self.shape = torch.Size((len(indices) * (shape[0] if shape else 1), *shape[1:]))
        """The tensors' shape, joined along the first dimension."""
        self.start, self.end = start, start + self.shape.numel()

    def gather(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the elements of the tensors in order, in ``self.shape``; of a single tensor possibly a view."""
        picked = self._pick(tensors)
        if self.count == 1:
            single: torch.Tensor = picked
            return single.reshape(1) if self._is_scalar else single
        return torch.stack(picked) if self._is_scalar else torch.cat(picked)

    def copy(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a copy of the elements of the tensors, in ``self.shape``."""
        return self.gather(tensors).clone() if self.count == 1 else self.gather(tensors)


class TensorStack:
    """Stacks whose elements are reduced together, each tensor in a segment."""

    def __init__(self, stacks: Sequence[Stack], lengths: Sequence[int]) -> None:
        """
        Args:
            lengths: Number of elements of each tensor, in the order of the stacks.
        """
        self.stacks = stacks
        self.size = sum(lengths)
        self.lengths = np.array(lengths, dtype=np.intp)
        self.starts = np.cumsum(self.lengths) - self.lengths
        """The first element of each segment."""

    def elements(self, gathered: Sequence[torch.Tensor], buffer: torch.Tensor) -> npt.NDArray[np.float64]:
        """Return the elements of gathered stacks as float64, side by side.

        Args:
            gathered: The elements of each stack.
            buffer: Host memory for at least ``size`` numbers in float64, which the result is a view of.
        """
        for stack, values in zip(self.stacks, gathered, strict=True):
            buffer[stack.start : stack.end].view(stack.shape).copy_(values)
        elements: npt.NDArray[np.float64] = buffer[: self.size].numpy()
        return elements


class StackPlan:
    """Partition of tensors, given by shape and dtype, into blocks of small ones, and others."""

    def __init__(self, shapes: Sequence[torch.Size], dtypes: Sequence[torch.dtype]) -> None:
        sizes = [shape.numel() for shape in shapes]
        self.sizes = np.array(sizes, dtype=np.float64)
        """Number of elements of each tensor."""
        self.others: list[int] = []
        """The tensors that are not stacked, because they are large or complex; empty ones are neither."""
        alike: dict[tuple[torch.Size, torch.dtype], list[int]] = {}
        for index, (size, shape, dtype) in enumerate(zip(sizes, shapes, dtypes, strict=True)):
            if size > STACKED_ELEMENTS or (size and dtype.is_complex):
                self.others.append(index)
            elif size:
                alike.setdefault((shape, dtype), []).append(index)
        self.blocks: list[TensorStack] = []
        owners: list[int] = []
        stacks: list[Stack] = []
        lengths: list[int] = []
        free = _BLOCK_ELEMENTS
        for (shape, _), indices in alike.items():
            size, at = shape.numel(), 0
            while at < len(indices):
                if free < size:
                    self.blocks.append(TensorStack(stacks, lengths))
                    stacks, lengths, free = [], [], _BLOCK_ELEMENTS
                taken = indices[at : at + free // size]
                stacks.append(Stack(taken, shape, _BLOCK_ELEMENTS - free))
                lengths += [size] * len(taken)
                owners += taken
                at += len(taken)
                free -= size * len(taken)
        if stacks:
            self.blocks.append(TensorStack(stacks, lengths))
        self.owners = np.array(owners, dtype=np.intp)
        """The stacked tensors, in the order of their segments."""

    @property
    def stacks(self) -> Iterator[Stack]:
        """The stacks of all blocks."""
        return (stack for block in self.blocks for stack in block.stacks)

    def buffer(self) -> torch.Tensor:
        """Return host memory for the elements of a block."""
        return torch.empty(max((block.size for block in self.blocks), default=0), dtype=torch.float64)


def stack_plan(tensors: Sequence[torch.Tensor]) -> StackPlan:
    """Return the plan of dense tensors; equal shapes and dtypes have one plan."""
    shapes = tuple(map(_shape_of, tensors))
    dtypes = frozenset(map(_dtype_of, tensors))
    key: Any = (shapes, dtypes) if len(dtypes) == 1 else (shapes, tuple(map(_dtype_of, tensors)))
    plan = _PLANS.get(key)
    if plan is None:
        if len(_PLANS) >= _MAX_PLANS:
            _PLANS.clear()  # shapes that may never recur
        plan = _PLANS[key] = StackPlan(shapes, tuple(map(_dtype_of, tensors)))
    return plan


_PLANS: Final[dict[Any, StackPlan]] = {}


def are_dense(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether no tensor is sparse."""
    return set(map(_layout_of, tensors)) <= _DENSE


_DENSE: Final = frozenset({torch.strided})
