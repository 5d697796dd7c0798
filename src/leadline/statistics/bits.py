"""Checksum of a tensor's exact bits that a device can compute chunk by chunk."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.statistics.definitions import FINGERPRINTED_ELEMENTS, FINGERPRINTED_SAMPLES

CHUNK_LANES: Final = 1 << 18
"""Number of lanes that are summed together; a lane is an integer of at most 32 bits."""
_MASK: Final = (1 << 64) - 1
_PRIME: Final = 0x9E3779B97F4A7C15
_HALF: Final = (1 << 32) - 1


@lru_cache(maxsize=1)
def weights() -> npt.NDArray[np.int64]:
    """Return the weight of each lane of a chunk: fixed, odd, distributed over 64 bits; ``(CHUNK_LANES,)``.

    Source:
        splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
    """
    state = np.arange(1, CHUNK_LANES + 1, dtype=np.uint64) * np.uint64(_PRIME)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((state ^ (state >> np.uint64(31))) | np.uint64(1)).view(np.int64)


def lane_type(element_bytes: int) -> str:
    """Return the integer type as which elements of this size are read."""
    return {1: "uint8", 2: "int16"}.get(element_bytes, "int32")


def checksum(values: npt.NDArray[Any]) -> float:
    """Return the checksum of an array's bits, in the order of its elements.

    Shape:
        values: any ``(*shape,)``; result: ``()``.
    Units:
        An integer below 2**48.
    Not a number:
        Compared by bits; NaNs with different payloads differ, and so do 0 and -0.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    lanes = flat.view(lane_type(flat.dtype.itemsize))
    with np.errstate(over="ignore"):
        sums = [
            int((lanes[at : at + CHUNK_LANES].astype(np.int64) * weights()[: len(lanes) - at]).sum())
            for at in range(0, len(lanes), CHUNK_LANES)
        ]
    return combine(sums, len(lanes))


def combine(sums: list[int], lanes: int) -> float:
    """Combine the sums of the chunks into the checksum.

    Args:
        sums: For each chunk in order the sum of lane x weight, modulo 2**64 (with any sign).
        lanes: The total number of lanes.
    """
    state = lanes * _PRIME & _MASK
    for chunk_sum in sums:
        state = ((state ^ (state >> 29)) * 0xBF58476D1CE4E5B9 + (chunk_sum & _MASK)) & _MASK
    return float(state >> 16)


def combine_single(sums: npt.NDArray[np.uint64], lanes: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return the checksums of tensors of one chunk each, as ``combine``.

    Shape:
        sums, lanes, result: all ``(tensors,)``.
    Args:
        sums: The sum of lane x weight of each tensor, modulo 2**64.
        lanes: The number of lanes of each tensor.
    """
    with np.errstate(over="ignore"):
        state = lanes * np.uint64(_PRIME)
        state = (state ^ (state >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) + sums
    checksums: npt.NDArray[np.float64] = (state >> np.uint64(16)).astype(np.float64)
    return checksums


def fingerprints(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return 64 bits for each sample, in which equal samples agree, whatever their type.

    Shape:
        values: ``(samples, *shape)``; ``()`` has no samples. Result: ``(samples, 2)``, of at most
        ``FINGERPRINTED_SAMPLES``, the first ones.
    Units:
        Integers from 0 to below 2**32, the upper and the lower half.
    Not a number:
        Every NaN is equal, and 0 equals -0.
    """
    values = np.abs(values) if np.iscomplexobj(values) else values
    if not values.ndim or not values.size:
        return np.zeros((0, 2))
    rows = values[:FINGERPRINTED_SAMPLES].reshape(min(len(values), FINGERPRINTED_SAMPLES), -1)
    if (size := rows.shape[1]) > FINGERPRINTED_ELEMENTS:
        rows = rows[:, np.arange(FINGERPRINTED_ELEMENTS) * size // FINGERPRINTED_ELEMENTS]
    with np.errstate(invalid="ignore"):  # NaNs of 8-bit types
        numbers = rows.astype(np.float64)
    lanes = np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.int64)
    with np.errstate(over="ignore"):
        lanes = (lanes ^ (lanes >> 32)) * weights()[: rows.shape[1]]
        sums = (lanes ^ (lanes >> 32)).sum(axis=1)
    return np.stack([(sums >> 32) & _HALF, sums & _HALF], axis=1).astype(np.float64)
