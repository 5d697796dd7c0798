"""How much a training step computes, counted from the shapes that PyTorch's functions are called with.

``torch.utils.flop_counter`` is a dispatch mode: while it stands, operations are decomposed, and graphs are compiled
anew. So it never stands in a training; what it would count is counted from shapes, and it is the tests' truth.
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
    """Adds up multiplications and additions, each for itself, of one forward pass and of the backward pass to come.

    Counted are products of matrices, convolutions and attention, as everybody counts; what else there is, is small.
    The backward pass repeats a product once for each factor that requires a gradient.
    """

    def __init__(self) -> None:
        self.total = 0

    def clear(self) -> None:
        """A step begins."""
        self.total = 0

    def note(self, function: Any, args: Args, kwargs: Mapping[str, Any], output: Any) -> None:
        """A function of PyTorch's returned."""
        formula = FORMULAS.get(function)
        if formula is not None and isinstance(output, (torch.Tensor, tuple)):
            self.total += formula(args, kwargs, output)


def _given(args: Args, kwargs: Mapping[str, Any], index: int, *names: str) -> Any:
    if len(args) > index:
        return args[index]
    return next((kwargs[name] for name in names if name in kwargs), None)


def _with_backward(flops: int, *factors: Any) -> int:
    """With a product for each factor that requires a gradient."""
    return flops * (1 + sum(1 for each in factors if isinstance(each, torch.Tensor) and each.requires_grad))


def _linear(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    inputs, weight = _given(args, kwargs, 0, "input"), _given(args, kwargs, 1, "weight")
    return _with_backward(2 * output.numel() * inputs.shape[-1], inputs, weight)


def _product(first: int) -> Formula:
    """A product of matrices whose first factor stands at that place."""

    def count(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
        left = _given(args, kwargs, first, "input", "mat1", "batch1")
        right = _given(args, kwargs, first + 1, "other", "mat2", "batch2")
        if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
            return 0
        return _with_backward(2 * output.numel() * left.shape[-1], left, right)

    return count


def _einsum(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    """Of two factors the product of all that is gone through; other forms are not counted."""
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
    inputs, weight = _given(args, kwargs, 0, "input"), _given(args, kwargs, 1, "weight")
    return _with_backward(2 * output.numel() * weight[0].numel(), inputs, weight)


def _transposed(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    inputs, weight = _given(args, kwargs, 0, "input"), _given(args, kwargs, 1, "weight")
    return _with_backward(2 * inputs.numel() * weight[0].numel(), inputs, weight)


def _attention(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    query, key, value = (_given(args, kwargs, at, name) for at, name in enumerate(("query", "key", "value")))
    pairs = math.prod(query.shape[:-1]) * key.shape[-2]
    return _with_backward(2 * pairs * query.shape[-1], query, key) + _with_backward(
        2 * pairs * value.shape[-1], value, query
    )


def _multi_head(args: Args, kwargs: Mapping[str, Any], output: Any) -> int:
    """Projections in and out, and between them attention, of which PyTorch tells as one."""
    query, key, value = (_given(args, kwargs, at, name) for at, name in enumerate(("query", "key", "value")))
    width = query.shape[-1]
    batch = query.shape[1] if query.dim() == 3 else 1
    weight = _given(args, kwargs, 5, "in_proj_weight")
    if weight is None:
        weight = kwargs.get("q_proj_weight")
    projected = sum(_with_backward(2 * each.numel() * width, each, weight) for each in (query, key, value))
    between = 4 * query.shape[0] * key.shape[0] * batch * width
    return int(projected + 3 * between + 6 * query.numel() * width)


def _table() -> dict[Any, Formula]:
    named: dict[str, Formula] = {
        "linear": _linear,
        "matmul": _product(0),
        "mm": _product(0),
        "bmm": _product(0),
        "addmm": _product(1),
        "baddbmm": _product(1),
        "__matmul__": _product(0),
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
    found: dict[Any, Formula] = {}
    for name, formula in named.items():
        for owner in (functional, torch, torch.Tensor):
            function = getattr(owner, name, None)
            if callable(function):
                found[function] = formula
    return found


FORMULAS: Final = _table()
