"""Conversion of any tensor to flat floats for the kernels, invisible to autograd and tensor wrappers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

CHUNK_ELEMENTS: Final = 1 << 18
"""Chunks of one megabyte of float32, which stay in a core's cache while several kernels read them."""

_FLOATS: Final = (torch.float32, torch.float64)


def _types(*names: str) -> frozenset[torch.dtype]:
    """Return the dtypes that this version of PyTorch has."""
    return frozenset(getattr(torch, name) for name in names if hasattr(torch, name))


_WIDENED: Final = _types(
    "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"
)
_READ: Final = _WIDENED | _types(
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of a tensor, in any order."""

    flat: torch.Tensor
    """Shape ``(n,)``, float32 or float64."""
    implicit_zeros: int = 0
    """Elements that a sparse tensor does not store."""

    @property
    def size(self) -> int:
        return int(self.flat.numel()) + self.implicit_zeros


def unreadable_reason(tensor: torch.Tensor) -> str | None:
    """Return the reason why statistics of a tensor cannot be computed; None if they can."""
    if tensor.is_meta:
        return "it is on the meta device and holds no data"
    if tensor.is_nested:
        return "it is nested"
    if tensor.layout not in (torch.strided, torch.sparse_coo):
        return f"its layout {tensor.layout} is not supported"
    if tensor.is_quantized:
        return "it is quantized"
    if tensor.dtype not in _READ:
        return f"its dtype {tensor.dtype} is not supported"
    return None


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return this process's part of a distributed tensor, other tensors unchanged; never runs a collective."""
    to_local = getattr(tensor, "to_local", None)
    return to_local() if to_local is not None else tensor


def elements(tensor: torch.Tensor) -> Elements:
    """Return the elements of a readable tensor; float32 and float64 are views if the layout allows it."""
    if tensor.dtype in _FLOATS and tensor.layout is torch.strided and tensor.is_contiguous():
        return Elements(tensor.view(-1))
    if tensor.layout is torch.sparse_coo:
        values = tensor.coalesce()._values()
        return Elements(_floats(values.reshape(-1)), tensor.numel() - values.numel())
    return Elements(_floats(flatten(tensor)))


def flatten(tensor: torch.Tensor) -> torch.Tensor:
    """Return all elements in one dimension: a view in memory order if they are dense there, else a copy."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))
    permuted = tensor.permute(order)
    return permuted.view(-1) if permuted.is_contiguous() else tensor.reshape(-1)


def _floats(flat: torch.Tensor) -> torch.Tensor:
    if flat.dtype in _FLOATS:
        return flat
    if flat.is_complex():
        return _floats(flat.abs())
    return flat.to(torch.float32 if flat.dtype in _WIDENED else torch.float64)
