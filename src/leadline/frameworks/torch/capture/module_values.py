"""Tensors in the inputs and outputs of modules and functions, and the collections they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch

_MAX_DEPTH: Final = 4
"""Depth to which nested containers are searched."""

LOSS_FUNCTIONS: Final = {
    "crossentropyloss": "cross_entropy",
    "nllloss": "nll_loss",
    "bceloss": "binary_cross_entropy",
    "bcewithlogitsloss": "binary_cross_entropy_with_logits",
}
"""The functions that loss modules of these kinds call."""


def module_kind(module: torch.nn.Module) -> str:
    """Return the lower-case class name of a module: ``relu``, ``tanh``, ``batchnorm2d`` …"""
    return type(module).__name__.lower()


def loss_collections(base: tuple[str, ...], side: str) -> Callable[[int], tuple[str, ...]]:
    """Return the collections of a loss call's inputs or outputs, by position."""
    if side == "output":
        return lambda index: base
    return lambda index: ("predictions", *base) if index == 0 else ("labels", *base) if index == 1 else base


def keyword_tensors(values: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among keyword arguments."""
    return [value for value in values.values() if isinstance(value, torch.Tensor)]


def tensors_in(values: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """Yield the tensors in a module's inputs or outputs, including those in nested containers and dataclasses."""
    if isinstance(values, torch.Tensor):
        yield values
    elif depth >= _MAX_DEPTH:
        return
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from tensors_in(value, depth + 1)
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from tensors_in(value, depth + 1)
    elif is_dataclass(values) and not isinstance(values, type):
        for field in fields(values):
            yield from tensors_in(getattr(values, field.name), depth + 1)
