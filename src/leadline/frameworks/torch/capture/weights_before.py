"""Weights before an update, and their update ratios after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

import numpy as np
import torch

from leadline.frameworks.torch.capture.device_copy import PendingRow, RowBuilder, Vector, copier_of
from leadline.frameworks.torch.capture.tensor_specs import TensorSpec
from leadline.frameworks.torch.kernels.elements import flatten, local
from leadline.frameworks.torch.kernels.samples import sample_of
from leadline.frameworks.torch.kernels.segments import norms_of_change
from leadline.frameworks.torch.kernels.stacks import StackPlan, stack_plan


class WeightsBefore:
    """Copies of weights before an update: full copies within the memory limit, else a strided sample.

    Small weights on the host are copied and compared together.
    """

    def __init__(self, specs: Sequence[TensorSpec], device_bytes: int) -> None:
        self._specs = specs
        size = sum(spec.parameter.numel() * spec.parameter.element_size() for spec in specs)
        self.is_sampled = size > device_bytes
        self.bytes = 0 if self.is_sampled else size
        """Device memory used by the copies."""
        self._plan: StackPlan | None = None
        self._stacks: list[list[torch.Tensor]] = []
        """Copies of small weights, for each stack of each block of the plan."""
        self._others: Sequence[int] = ()
        """The weights that are copied one by one."""
        self._copies: list[torch.Tensor] = []

    def snapshot(self) -> None:
        """Copy the weights."""
        weights = self._read()
        self._plan, self._others = None, range(len(weights))
        if _are_on_host(weights):
            self._plan = plan = stack_plan(weights)
            self._stacks = [[stack.copy(weights) for stack in block.stacks] for block in plan.blocks]
            self._others = plan.others
        others = [weights[index] for index in self._others]
        copied = [(copy.shape, copy.device) for copy in self._copies]
        if copied != [(weight.shape, weight.device) for weight in others]:
            self._copies = [torch.empty_like(weight) for weight in others]
        if others:
            torch._foreach_copy_(self._copies, others)

    def ratios(self) -> bytes | PendingRow:
        """Return the norm of the change over the norm before, for each tensor."""
        weights, plan, count = self._read(), self._plan, len(self._specs)
        norms = np.full((2, count), np.nan)
        if plan is not None:
            norms[:] = norms_of_change(plan, self._stacks, weights)
            self._plan, self._stacks = None, []
        builder = RowBuilder()
        indices = self._add_others([weights[index] for index in self._others], builder)

        def combine(parts: list[Vector]) -> Vector:
            for tensors, part in zip(indices, parts, strict=True):
                norms[:, tensors] = part.reshape(2, -1)
            change, before = norms
            with np.errstate(all="ignore"):
                ratios: Vector = np.where((before == 0) & (change == 0), 0.0, change / before)
            return ratios

        return builder.finish(combine)

    def _add_others(self, weights: Sequence[torch.Tensor], builder: RowBuilder) -> list[list[int]]:
        """Add the norms of the weights' change and of their copies, as one part for each device.

        Returns:
            The indices of the tensors of each part.
        """
        changed = torch._foreach_sub(weights, self._copies) if weights else ()
        by_device: dict[torch.device, list[int]] = {}
        for at, change in enumerate(changed):
            by_device.setdefault(change.device, []).append(at)
        for places in by_device.values():
            builder.add_statistics([*(changed[at] for at in places), *(self._copies[at] for at in places)], ("l2",))
        return [[self._others[at] for at in places] for places in by_device.values()]

    def _read(self) -> list[torch.Tensor]:
        if self.is_sampled:
            return [sample_of(flatten(local(spec.parameter.detach()))) for spec in self._specs]
        return [spec.parameter if spec.is_plain else local(spec.parameter.detach()) for spec in self._specs]


_IS_CPU: Final[Callable[[torch.Tensor], bool]] = attrgetter("is_cpu")


def _are_on_host(tensors: Sequence[torch.Tensor]) -> bool:
    return copier_of(torch.device("cpu")) is None and all(map(_IS_CPU, tensors))
