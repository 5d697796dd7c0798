"""Tensors of all dtypes, shapes, layouts and kinds of values, and their numpy equivalents."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import strategies as st

FLOATS = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
)
OTHERS = (
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.bool,
    torch.complex64,
    torch.complex128,
)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32)

SHAPES = st.lists(st.integers(0, 7), max_size=5).map(tuple).filter(lambda shape: 3 * math.prod(shape) <= 4096)
"""Shapes of tensors small enough for sampled statistics to be exact, even when expanded."""
SPECIAL = st.sampled_from(
    ["none", "nan", "inf", "both infinities", "all nan", "all inf", "zeros", "constant", "tiny", "huge", "whole"]
)
LAYOUTS = st.sampled_from(["contiguous", "transposed", "every second", "inner", "channels last", "expanded"])


def make_tensor(
    shape: tuple[int, ...], dtype: torch.dtype, special: str = "none", seed: int = 0, layout: str = "contiguous"
) -> torch.Tensor:
    """Return a tensor of this shape (an expanded tensor has one more dimension) that shares no memory."""
    tensor = make_values(shape, special, seed)
    if dtype.is_complex:
        tensor = torch.complex(tensor, make_values(shape, special, seed + 1))
    if not dtype.is_floating_point and not dtype.is_complex:  # inf + 1j times 3 is inf + nan j, of no certain modulus
        tensor = tensor * 3
    return with_layout((tensor.abs() if dtype in UNSIGNED else tensor).to(dtype), layout)


def make_values(shape: tuple[int, ...], special: str, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    flat = values.view(-1)
    if special == "zeros":
        flat.zero_()
    elif special == "constant":
        flat.fill_(1.5)
    elif special == "tiny":
        flat.mul_(1e-25)
    elif special == "huge":
        flat.mul_(1e25)
    elif special == "whole":
        flat.round_()
    elif special == "all nan":
        flat.fill_(float("nan"))
    elif special == "all inf":
        flat.copy_(torch.where(flat > 0, float("inf"), float("-inf")))
    elif special == "nan" and flat.numel():
        flat[seed % flat.numel()] = float("nan")
    elif special == "inf" and flat.numel():
        flat[seed % flat.numel()] = float("inf")
    elif special == "both infinities" and flat.numel():
        flat[0], flat[-1] = float("inf"), float("-inf")
    return values


def with_layout(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Return an equal tensor with another memory layout."""
    if layout == "transposed" and tensor.dim() > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "every second" and tensor.dim():
        wide = torch.empty((*tensor.shape[:-1], tensor.shape[-1] * 2), dtype=tensor.dtype)
        wide[..., ::2] = tensor
        return wide[..., ::2]
    if layout == "inner" and tensor.dim():
        wide = torch.empty((tensor.shape[0] + 3, *tensor.shape[1:]), dtype=tensor.dtype)
        wide[2:-1] = tensor
        return wide[2:-1]
    if layout == "channels last" and tensor.dim() in (4, 5):
        order = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
        return tensor.contiguous(memory_format=order)
    if layout == "expanded":
        return tensor[None].expand(3, *tensor.shape)
    return tensor


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return the elements; dtypes that numpy lacks as float32."""
    dense = tensor.to_dense() if tensor.layout is torch.sparse_coo else tensor
    return (dense.float() if dense.dtype in FLOATS[2:] else dense).contiguous().numpy()


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """Return the elements in a numpy dtype with the same number of bits."""
    whole = tensor.contiguous()
    if whole.dtype in FLOATS[3:]:
        return (whole.view(torch.int16 if whole.element_size() == 2 else torch.uint8)).numpy()
    return whole.numpy()
