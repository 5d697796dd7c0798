"""What counts as a scalar among the values that a script logs."""

from __future__ import annotations

import sys
from numbers import Real
from typing import Any


def scalar(value: Any) -> Any:
    """A value as a float, or as the tensor of one element that it is; None where it is no real scalar.

    Only plain tensors count: to read a distributed one may be a collective.
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
    """Whether what ``scalar`` gave can be read without waiting for a device."""
    return isinstance(value, float) or value.device.type == "cpu"


def is_same(one: float, other: float) -> bool:
    """Whether two numbers are the same; NaN is NaN."""
    return one == other or (one != one and other != other)
