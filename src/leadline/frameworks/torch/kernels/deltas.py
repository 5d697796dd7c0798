"""What changed in tensors since their previous capture: whole copies while there is room, else samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels.samples import sample_of
from leadline.statistics.definitions import Statistic, find_statistic

Vector = npt.NDArray[np.float64]

_CHUNK_ELEMENTS: Final = 1 << 16
"""Half a megabyte of float64 stays in a core's cache while several kernels read it."""


@dataclass(frozen=True, slots=True)
class _Memory:
    """A tensor as it was."""

    values: torch.Tensor
    """Shape ``(n,)``: all elements in their order, or a sample, in the tensor's own type."""
    shape: torch.Size
    is_sampled: bool


class Deltas:
    """Remembers tensors by name from capture to capture.

    Whole copies take at most so many bytes of the device; tensors beyond are sampled from the first capture on,
    and that is told once.
    """

    def __init__(self, device_bytes: int, tell: Callable[[str], None]) -> None:
        """
        Args:
            device_bytes: Memory for whole copies.
            tell: Takes the line that says what is sampled.
        """
        self._room = device_bytes
        self._tell = tell
        self._memories: dict[str, _Memory] = {}
        self._is_told = False

    def begin(
        self, names: Sequence[str], tensors: Sequence[torch.Tensor], statistics: Sequence[str]
    ) -> tuple[torch.Tensor, Callable[[Vector], Vector]]:
        """Compare tensors with what they were when this was last called for their names, and remember them.

        Args:
            tensors: Readable ones, on one device, one a name.
            statistics: Those of source ``change``.
        Shape:
            Numbers on the device: ``(n,)``, float64; of these, on the host, the second result makes
            ``(len(statistics) * len(tensors),)``, statistic by statistic.
        Not a number:
            As the definitions say; NaN at the first capture, and of sparse tensors.
        """
        self._give_room(names, tensors)
        wanted = [find_statistic(each) for each in statistics]
        parts: list[torch.Tensor] = []
        sizes: list[tuple[int, int, int]] = []
        for name, tensor in zip(names, tensors, strict=True):
            found = self._compare(name, tensor, wanted)
            parts += found
            kept = self._memories[name].values.numel() if name in self._memories else 0
            sizes.append((len(found), kept, tensor.numel()))
        numbers = torch.stack(parts).reshape(-1) if parts else torch.zeros(0, dtype=torch.float64)

        def finish(come: Vector) -> Vector:
            rows, at = come.reshape(-1, len(wanted)), 0
            result = np.full((len(wanted), len(sizes)), np.nan)
            for index, (chunks, kept, whole) in enumerate(sizes):
                if chunks:
                    sums = rows[at : at + chunks].sum(0)
                    result[:, index] = [_conclude(*each, kept, whole) for each in zip(wanted, sums, strict=True)]
                at += chunks
            return result.reshape(-1)

        return numbers, finish

    def _give_room(self, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
        """Decide of new tensors, together, whether they are kept whole."""
        new = [
            (name, tensor)
            for name, tensor in zip(names, tensors, strict=True)
            if name not in self._memories and tensor.layout is torch.strided
        ]
        size = sum(tensor.numel() * tensor.element_size() for _, tensor in new)
        is_sampled = size > self._room
        self._room -= 0 if is_sampled else size
        for name, tensor in new:
            empty = tensor.new_empty(0)
            self._memories[name] = _Memory(empty, torch.Size((-1,)), is_sampled)
        if is_sampled and not self._is_told:
            self._is_told = True
            self._tell(
                f"changes since the previous capture are estimated from samples: copies of {len(new)} tensors would "
                f"take {size:,} bytes of the device, more than device_bytes leaves"
            )

    def _compare(self, name: str, tensor: torch.Tensor, wanted: Sequence[Statistic]) -> list[torch.Tensor]:
        """For each chunk one number a statistic; nothing where there is nothing to compare with."""
        if tensor.layout is not torch.strided:
            self._tell(f"{name} is not compared with its previous capture: it is sparse")
            return []
        memory = self._memories[name]
        flat = tensor.resolve_conj().resolve_neg().reshape(-1)
        current = sample_of(flat) if memory.is_sampled else flat
        before = memory.values
        found: list[torch.Tensor] = []
        if memory.shape == tensor.shape and before.dtype == current.dtype and before.device == current.device:
            chunks = zip(before.split(_CHUNK_ELEMENTS), current.split(_CHUNK_ELEMENTS), strict=True)
            found = [_numbers(_wide(one), _wide(other), wanted) for one, other in chunks if one.numel()]
        if found and not before.is_inference():  # those may be changed in inference mode only
            before.copy_(current)
        else:
            self._memories[name] = _Memory(current.clone(), tensor.shape, memory.is_sampled)
        return found


def _numbers(before: torch.Tensor, after: torch.Tensor, wanted: Sequence[Statistic]) -> torch.Tensor:
    """Sum of squares, or number of close elements; ``(len(wanted),)``, float64."""
    off = (after - before).abs()
    return torch.stack(
        [torch.dot(off, off) if each.name == "change_l2" else _count_close(before, after, off, each) for each in wanted]
    )


def _count_close(before: torch.Tensor, after: torch.Tensor, off: torch.Tensor, statistic: Statistic) -> torch.Tensor:
    """Order is compared into float64, which is several times faster than into truth values."""
    rtol, atol = statistic.arguments
    bound = before.abs().mul_(rtol).add_(atol)
    is_close = torch.le(off, bound, out=torch.empty_like(off))
    is_close *= torch.lt(bound, float("inf"), out=bound)
    is_same = after == before
    if statistic.family.endswith("_nan"):
        is_same |= torch.isnan(after) & torch.isnan(before)
    return torch.maximum(is_close, is_same).sum()


def _conclude(statistic: Statistic, total: float, kept: int, whole: int) -> float:
    with np.errstate(all="ignore"):
        if statistic.name == "change_l2":
            return float(np.sqrt(total * (whole / kept)))
        return float(total / kept)


def _wide(flat: torch.Tensor) -> torch.Tensor:
    if flat.is_complex():
        return flat.to(torch.complex128)
    return (flat.float() if flat.is_floating_point() and flat.element_size() == 1 else flat).double()
