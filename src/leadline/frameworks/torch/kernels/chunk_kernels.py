"""Reduction kernels that run over chunks of tensors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from leadline.frameworks.torch.kernels.elements import CHUNK_ELEMENTS
from leadline.statistics.definitions import find_statistic

Vector = npt.NDArray[np.float64]


class ChunkKernels:
    """Runs the kernels that the requested primaries need, and keeps their results on the device."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._extremes = bool(wanted & {"min", "max"})
        self._l1 = "l1" in wanted
        self._squares = "squares" in wanted
        self._centred = "centred" in wanted
        self._zeros = "zeros" in wanted
        self._abs_min = "abs_min" in wanted
        self._prod = "prod" in wanted
        self._bands = [Band(name) for name in sorted(wanted) if is_band(name)]
        self.partials: dict[str, list[torch.Tensor]] = {}
        self._scratch: dict[tuple[torch.dtype, int], torch.Tensor] = {}

    def chunk(self, flat: torch.Tensor) -> None:
        """Run all kernels on one chunk while it is in the cache."""
        partials = self.partials
        total = flat.sum()
        _append(partials, "sum", total)
        if self._extremes:
            low, high = torch.aminmax(flat)
            _append(partials, "min", low)
            _append(partials, "max", high)
        if self._squares:
            _append(partials, "squares", torch.dot(flat, flat))
        if self._zeros:
            # writing ones and zeros to warm memory and summing takes a third of the time of counting
            _append(partials, "zeros", torch.eq(flat, 0, out=self._scratch_buffer(flat)).sum())
        if self._prod:
            _append(partials, "prod", flat.prod(dtype=torch.float64))
        for band in self._bands:
            _append(partials, band.name, band.count(flat, self._scratch_buffer(flat), self._scratch_buffer(flat, 1)))
        if self._l1 or self._centred or self._abs_min:
            scratch = self._scratch_buffer(flat)
            if self._l1 or self._abs_min:
                # writing abs to warm memory and summing takes a third of the time of a norm of order one
                moduli = torch.abs(flat, out=scratch)
                if self._l1:
                    _append(partials, "l1", moduli.sum())
                if self._abs_min:
                    _append(partials, "abs_min", moduli.amin())
            if self._centred:
                torch.sub(flat, total / flat.numel(), out=scratch)
                _append(partials, "centred", torch.dot(scratch, scratch))

    def results(self) -> dict[str, Vector]:
        """Return one number per chunk and kernel, all copied from the device together."""
        matrix = torch.stack([torch.stack(parts).double() for parts in self.partials.values()]).cpu().numpy()
        return dict(zip(self.partials, matrix, strict=True))

    def _scratch_buffer(self, flat: torch.Tensor, ordinal: int = 0) -> torch.Tensor:
        key = (flat.dtype, ordinal)
        buffer = self._scratch.get(key)
        if buffer is None:
            buffer = self._scratch[key] = torch.empty(CHUNK_ELEMENTS, dtype=flat.dtype, device=flat.device)
        return buffer[: flat.numel()]


class Band:
    """Band of values that ``within_<low>_<high>`` or ``equals_<number>`` counts."""

    def __init__(self, name: str) -> None:
        self.name = name
        arguments = find_statistic(name).arguments
        self._low, self._high = arguments[0], arguments[-1]

    def count(self, flat: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Count the elements of a chunk in the band, using two buffers of the chunk's size and dtype."""
        low, high = self._bounds(flat.dtype)
        return torch.dot(torch.ge(flat, low, out=one), torch.le(flat, high, out=other))

    def _bounds(self, dtype: torch.dtype) -> tuple[float, float]:
        """Return the band's limits, for float32 rounded to the float32 values inside the band."""
        if dtype is torch.float32:
            return _float32_at_least(self._low), -_float32_at_least(-self._high)
        return self._low, self._high

    @property
    def has_zero(self) -> bool:
        return self._low <= 0 <= self._high


def is_band(name: str) -> bool:
    return name.startswith(("within_", "equals_"))


def _float32_at_least(number: float) -> float:
    """Return the smallest float32 that is not below a number."""
    with np.errstate(over="ignore"):
        near = np.float32(number)
    return float(near if float(near) >= number else np.nextafter(near, np.float32(np.inf)))


def _append(partials: dict[str, list[torch.Tensor]], name: str, value: torch.Tensor) -> None:
    partials.setdefault(name, []).append(value)
