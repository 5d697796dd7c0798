"""Changes of tensors since their previous capture, from full copies within a memory limit, else from samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels.samples import sample_of
from leadline.frameworks.torch.kernels.stacks import Stack, are_dense, stack_plan
from leadline.statistics.definitions import Statistic, find_statistic

Vector = npt.NDArray[np.float64]

_CHUNK_ELEMENTS: Final = 1 << 16
"""Half a megabyte of float64, which stays in a core's cache while several kernels read it."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Values of a tensor at its previous capture."""

    values: torch.Tensor
    """Shape ``(n,)``: all elements in order, or a sample, in the tensor's own dtype."""
    shape: torch.Size
    is_sampled: bool


class Deltas:
    """Keeps the values of tensors, by name, from one capture to the next.

    Full copies are limited to a number of bytes on the device; tensors beyond it are sampled from their first capture
    on, which is reported once.
    """

    def __init__(self, device_bytes: int, warn: Callable[[str], None]) -> None:
        """
        Args:
            device_bytes: Memory for full copies.
            warn: Called with a message if tensors are sampled.
        """
        self._free_bytes = device_bytes
        self._warn = warn
        self._snapshots: dict[str, _Snapshot] = {}
        self._has_warned = False

    def begin(
        self, names: Sequence[str], tensors: Sequence[torch.Tensor], statistics: Sequence[str]
    ) -> tuple[torch.Tensor, Callable[[Vector], Vector]]:
        """Compare tensors with their values at the previous call for their names, and keep the current values.

        Args:
            tensors: Readable tensors on one device, one per name.
            statistics: Names of statistics with source ``change``.
        Shape:
            Numbers on the device: ``(n,)``, float64; the second result turns them, on the host, into
            ``(len(statistics) * len(tensors),)``, ordered by statistic.
        Not a number:
            As defined in ``statistics.definitions``; NaN at the first capture, and for sparse tensors.
        """
        self._allocate(names, tensors)
        requested = [find_statistic(name) for name in statistics]
        parts: list[torch.Tensor] = []
        owners: list[int] = []
        others: Sequence[int] = range(len(tensors))
        if are_dense(tensors) and not any(self._snapshots[name].is_sampled for name in names):
            plan = stack_plan(tensors)
            others = plan.others
            for stack in plan.stacks:
                compared, sums = self._compare_stack(stack, names, tensors, requested)
                parts += sums
                owners += compared
        for index in others:
            sums = self._compare(names[index], tensors[index], requested)
            parts += sums
            owners += [index] * len(sums)
        numbers = torch.cat(parts).reshape(-1) if parts else torch.zeros(0, dtype=torch.float64)
        places = np.array(owners, dtype=np.intp)
        sizes = [(self._kept_elements(name), tensor.numel()) for name, tensor in zip(names, tensors, strict=True)]

        def finish(fetched: Vector) -> Vector:
            totals = np.full((len(sizes), len(requested)), np.nan)
            totals[places] = 0.0
            np.add.at(totals, places, fetched.reshape(-1, len(requested)))
            kept, whole = np.array(sizes, dtype=np.float64).T
            return np.concatenate([_result(*pair, kept, whole) for pair in zip(requested, totals.T, strict=True)])

        return numbers, finish

    def _kept_elements(self, name: str) -> int:
        return self._snapshots[name].values.numel() if name in self._snapshots else 0

    def _allocate(self, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
        """Decide for all new tensors together whether they are copied or sampled."""
        new = [
            (name, tensor)
            for name, tensor in zip(names, tensors, strict=True)
            if name not in self._snapshots and tensor.layout is torch.strided
        ]
        size = sum(tensor.numel() * tensor.element_size() for _, tensor in new)
        is_sampled = size > self._free_bytes
        self._free_bytes -= 0 if is_sampled else size
        for name, tensor in new:
            empty = tensor.new_empty(0)
            self._snapshots[name] = _Snapshot(empty, torch.Size((-1,)), is_sampled)
        if is_sampled and not self._has_warned:
            self._has_warned = True
            self._warn(
                f"changes since the previous capture are estimated from samples: copies of {len(new)} tensors need "
                f"{size:,} bytes on the device, more than device_bytes allows"
            )

    def _compare_stack(
        self, stack: Stack, names: Sequence[str], tensors: Sequence[torch.Tensor], requested: Sequence[Statistic]
    ) -> tuple[list[int], list[torch.Tensor]]:
        """Return the tensors of a stack that have a previous capture, and one row of numbers for each of them."""
        shape = tensors[stack.indices[0]].shape
        current = stack.copy(tensors).reshape(stack.count, -1)
        previous = [self._snapshots[names[index]] for index in stack.indices]
        rows = [row for row, snapshot in enumerate(previous) if _is_comparable(snapshot, shape, current)]
        for index, values in zip(stack.indices, current.unbind(), strict=True):
            self._snapshots[names[index]] = _Snapshot(values, shape, is_sampled=False)
        if not rows:
            return [], []
        before = torch.stack([previous[row].values for row in rows])
        after = current if len(rows) == stack.count else torch.stack([current[row] for row in rows])
        return [stack.indices[row] for row in rows], [_row_sums(_to_float64(before), _to_float64(after), requested)]

    def _compare(self, name: str, tensor: torch.Tensor, requested: Sequence[Statistic]) -> list[torch.Tensor]:
        """Return a row of numbers for each chunk; nothing if there is no previous capture to compare with."""
        if tensor.layout is not torch.strided:
            self._warn(f"{name} is not compared with its previous capture: the tensor is sparse")
            return []
        snapshot = self._snapshots[name]
        flat = tensor.resolve_conj().resolve_neg().reshape(-1)
        current = sample_of(flat) if snapshot.is_sampled else flat
        before = snapshot.values
        sums: list[torch.Tensor] = []
        if _is_comparable(snapshot, tensor.shape, current):
            chunks = zip(before.split(_CHUNK_ELEMENTS), current.split(_CHUNK_ELEMENTS), strict=True)
            sums = [
                _row_sums(_to_float64(one)[None], _to_float64(other)[None], requested)
                for one, other in chunks
                if one.numel()
            ]
        if sums and not before.is_inference():  # inference tensors can be changed only in inference mode
            before.copy_(current)
        else:
            self._snapshots[name] = _Snapshot(current.clone(), tensor.shape, snapshot.is_sampled)
        return sums


def _is_comparable(snapshot: _Snapshot, shape: torch.Size, current: torch.Tensor) -> bool:
    before = snapshot.values
    return bool(snapshot.shape == shape and before.dtype == current.dtype and before.device == current.device)


def _row_sums(before: torch.Tensor, after: torch.Tensor, requested: Sequence[Statistic]) -> torch.Tensor:
    """Return the sum of squares or the number of close elements in each row.

    Shape:
        before, after: ``(rows, n)``; result: ``(rows, len(requested))``, float64.
    """
    off = _distances(before, after)
    return torch.stack(
        [
            torch.linalg.vector_norm(off, dim=1).square()
            if statistic.name == "change_l2"
            else _count_close(before, after, off, statistic)
            for statistic in requested
        ],
        1,
    )


def _distances(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Return the absolute values of the changes; torch subtracts complex numbers with NaN where a part is infinite."""
    if not after.is_complex():
        return (after - before).abs()
    return torch.linalg.vector_norm(torch.view_as_real(after) - torch.view_as_real(before), dim=-1)


def _count_close(before: torch.Tensor, after: torch.Tensor, off: torch.Tensor, statistic: Statistic) -> torch.Tensor:
    """Count the elements that are close; comparing into float64 is several times faster than into booleans."""
    rtol, atol = statistic.arguments
    limit = before.abs().mul_(rtol).add_(atol)
    is_close = torch.le(off, limit, out=torch.empty_like(off))
    is_close *= torch.lt(limit, float("inf"), out=limit)
    is_same = after == before
    if statistic.family.endswith("_nan"):
        is_same |= torch.isnan(after) & torch.isnan(before)
    return torch.maximum(is_close, is_same).sum(1)


def _result(statistic: Statistic, totals: Vector, kept: Vector, whole: Vector) -> Vector:
    with np.errstate(all="ignore"):
        result: Vector = np.sqrt(totals * (whole / kept)) if statistic.name == "change_l2" else totals / kept
    return result


def _to_float64(flat: torch.Tensor) -> torch.Tensor:
    if flat.is_complex():
        return flat.to(torch.complex128)
    return (flat.float() if flat.is_floating_point() and flat.element_size() == 1 else flat).double()
