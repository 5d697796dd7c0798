"""Conversion of logged values to scalars."""

from __future__ import annotations

import sys
from numbers import Real
from typing import Any


def scalar(value: Any) -> Any:
    """Return a value as a float or as a tensor of one element; None if it is not a real scalar.

    Only plain tensors count: reading a distributed tensor may be a collective operation.
    """
    if isinstance(value, Real):
        try:
            return float(value)
        except OverflowError:
            return None
    torch = sys.modules.get("torch")
    if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter):
        is_readable = value.numel() == 1 and value.layout is torch.strided and not value.is_meta
        return value if is_readable and not value.is_complex() else None
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return float(value.item()) if value.size == 1 and value.dtype.kind in "biuf" else None
    return None


def is_on_host(value: Any) -> bool:
    """Return whether a result of ``scalar`` can be read without waiting for a device."""
    return isinstance(value, float) or value.device.type == "cpu"


def is_same(one: Any, other: Any) -> bool:
    """Return whether two results of ``scalar`` are equal; NaN equals NaN, and a tensor only itself."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)
    return one is other
