"""Device implementation of the checksum: weighted sums of lanes per chunk, combined on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from leadline.statistics.bits import CHUNK_LANES, combine, weights

Vector = npt.NDArray[np.float64]

_LOW: Final = (1 << 32) - 1
_LANES: Final = {1: torch.uint8, 2: torch.int16}


def begin(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, Callable[[Vector], Vector]]:
    """Start summing the bits of tensors on their device.

    Args:
        tensors: Readable tensors on one device. Of a sparse tensor the coalesced indices and values are used.
    Shape:
        Numbers on the device: ``(n,)``, float64; the second result turns them, on the host, into
        ``(len(tensors),)``; NaN for an empty tensor.
    """
    sums: list[torch.Tensor] = []
    forms: list[tuple[int, int]] = []
    for tensor in tensors:
        lanes = [_lanes(part) for part in _parts(tensor)]
        chunk_sums = [chunk_sum for part in lanes for chunk_sum in _chunk_sums(part)]
        sums += chunk_sums
        forms.append((len(chunk_sums), sum(part.numel() for part in lanes)))
    whole = torch.stack(sums) if sums else torch.zeros(0, dtype=torch.int64, device=tensors[0].device)
    numbers = torch.stack([whole >> 32, whole & _LOW]).double().reshape(-1)

    def finish(fetched: Vector) -> Vector:
        high, low = fetched.reshape(2, -1)
        whole = [(int(a) << 32) + int(b) for a, b in zip(high, low, strict=True)]
        checksums, at = [], 0
        for chunks, lanes in forms:
            checksums.append(combine(whole[at : at + chunks], lanes) if lanes else float("nan"))
            at += chunks
        return np.array(checksums)

    return numbers, finish


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if tensor.layout is torch.sparse_coo:
        whole = tensor.coalesce()
        return whole._values(), whole._indices()
    return (tensor,)


def _lanes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bits in element order, as integers of at most 32 bits."""
    flat = tensor.resolve_conj().resolve_neg().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    if flat.stride(0) != 1:  # including a single element, which counts as contiguous with any stride
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(_LANES.get(flat.element_size(), torch.int32)) if flat.numel() else flat


def _chunk_sums(lanes: torch.Tensor) -> list[torch.Tensor]:
    factors = _weights(lanes.device)
    return [(chunk * factors[: chunk.numel()]).sum() for chunk in lanes.split(CHUNK_LANES) if chunk.numel()]


def _weights(device: torch.device) -> torch.Tensor:
    if device not in _WEIGHTS:
        _WEIGHTS[device] = torch.from_numpy(weights()).to(device)
    return _WEIGHTS[device]


_WEIGHTS: Final[dict[Any, torch.Tensor]] = {}
