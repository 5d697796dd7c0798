"""FLOPs of a training step, counted from the shapes that PyTorch's functions are called with.

``torch.utils.flop_counter`` is a dispatch mode: while it is active, operations are decomposed and graphs are
recompiled. So it is never used in a training; the same operations are counted from shapes, and the tests compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.nn import functional

Args = tuple[Any, ...]
Formula = Callable[[Args, Mapping[str, Any], Any], int]


class FlopCount:
    """Counts multiplications and additions, each as one, of a forward pass and of the backward pass that follows.

    Matrix products, convolutions and attention are counted, as is usual; all other operations are negligible. The
    backward pass repeats a product once for each factor that requires a gradient.
    """

    def __init__(self) -> None:
        self.total = 0

    def clear(self) -> None:
        """Reset the count at the start of a step."""
        self.total = 0

    def add(self, function: Any, args: Args, kwargs: Mapping[str, Any], output: Any) -> None:
        """Add a call of a PyTorch function that returned."""
        formula = FORMULAS.get(function)
        if formula is not None and isinstance(output, (torch.Tensor, tuple)):
            self.total += formula(args, kwargs, output)


def _argument(args: Args, kwargs: Mapping[str, Any], index: int, *names: str) -> Any:
    if len(args) > index:
        return args[index]
    return next((kwargs[name] for name in names if name in kwargs), None)


def _with_backward(flops: int, *factors: Any) -> int:
    """Add one product for each factor that requires a gradient."""
    with_gradient = sum(1 for factor in factors if isinstance(factor, torch.Tensor) and factor.requires_grad)
    return flops * (1 + with_gradient)


def _linear(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    inputs, weight = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "weight")
    return _with_backward(2 * output.numel() * inputs.shape[-1], inputs, weight)


def _matrix_product(first: int) -> Formula:
    """Return the formula of a matrix product whose first factor is at a position."""

    def count(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
        left = _argument(args, kwargs, first, "input", "mat1", "batch1")
        right = _argument(args, kwargs, first + 1, "other", "mat2", "batch2")
        if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
            return 0
        return _with_backward(2 * output.numel() * left.shape[-1], left, right)

    return count


def _einsum(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    """Count an einsum of two factors as the product of all index sizes; other forms are not counted."""
    equation, *factors = args
    if len(factors) == 1 and isinstance(factors[0], (tuple, list)):
        factors = list(factors[0])
    if not isinstance(equation, str) or len(factors) != 2 or "." in equation:
        return 0
    sizes: dict[str, int] = {}
    for letters, factor in zip(equation.replace(" ", "").partition("->")[0].split(","), factors, strict=True):
        sizes |= dict(zip(letters, factor.shape, strict=True))
    return _with_backward(2 * math.prod(sizes.values()), *factors)


def _convolution(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    inputs, weight = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "weight")
    return _with_backward(2 * output.numel() * weight[0].numel(), inputs, weight)


def _transposed(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    inputs, weight = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "weight")
    return _with_backward(2 * inputs.numel() * weight[0].numel(), inputs, weight)


def _attention(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    query, key, value = (_argument(args, kwargs, at, name) for at, name in enumerate(("query", "key", "value")))
    pairs = math.prod(query.shape[:-1]) * key.shape[-2]
    return _with_backward(2 * pairs * query.shape[-1], query, key) + _with_backward(
        2 * pairs * value.shape[-1], value, query
    )


def _multi_head(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    """Count input and output projections and the attention, which PyTorch calls as one function."""
    query, key, value = (_argument(args, kwargs, at, name) for at, name in enumerate(("query", "key", "value")))
    width = query.shape[-1]
    batch = query.shape[1] if query.dim() == 3 else 1
    weight = _argument(args, kwargs, 5, "in_proj_weight")
    if weight is None:
        weight = kwargs.get("q_proj_weight")
    projected = sum(_with_backward(2 * inputs.numel() * width, inputs, weight) for inputs in (query, key, value))
    attention = 4 * query.shape[0] * key.shape[0] * batch * width
    return int(projected + 3 * attention + 6 * query.numel() * width)


def _formulas() -> dict[Any, Formula]:
    named: dict[str, Formula] = {
        "linear": _linear,
        "matmul": _matrix_product(0),
        "mm": _matrix_product(0),
        "bmm": _matrix_product(0),
        "addmm": _matrix_product(1),
        "baddbmm": _matrix_product(1),
        "__matmul__": _matrix_product(0),
        "einsum": _einsum,
        "conv1d": _convolution,
        "conv2d": _convolution,
        "conv3d": _convolution,
        "conv_transpose1d": _transposed,
        "conv_transpose2d": _transposed,
        "conv_transpose3d": _transposed,
        "scaled_dot_product_attention": _attention,
        "multi_head_attention_forward": _multi_head,
    }
    table: dict[Any, Formula] = {}
    for name, formula in named.items():
        for owner in (functional, torch, torch.Tensor):
            function = getattr(owner, name, None)
            if callable(function):
                table[function] = formula
    return table


FORMULAS: Final = _formulas()
