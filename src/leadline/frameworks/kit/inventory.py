"""Entries of models and optimizers for ``leadline doctor``, in one form for every framework."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from leadline.records.doctor_report import ModelEntry, OptimizerEntry, UncapturedEntry


class HeldParameter(NamedTuple):
    """A parameter of a model or an optimizer."""

    shape: Sequence[int]
    dtype: str
    devices: tuple[str, ...]
    is_trained: bool = True


def model_entry(name: str, parameters: Iterable[HeldParameter], wrapper: str | None = None) -> ModelEntry:
    """Return the entry of a model.

    Args:
        wrapper: The class that wraps the model, such as one of a distributed training.
    """
    held = list(parameters)
    return {
        "name": name,
        "wrapper": wrapper,
        "parameters": _elements(held),
        "trainable": _elements(parameter for parameter in held if parameter.is_trained),
        "tensors": len(held),
        "dtypes": sorted({parameter.dtype for parameter in held}),
        "devices": sorted({device for parameter in held for device in parameter.devices}),
    }


def optimizer_entry(
    name: str, parameters: Iterable[HeldParameter], variables: Iterable[str] = (), groups: int = 1
) -> OptimizerEntry:
    """Return the entry of an optimizer.

    Args:
        variables: The kinds of variables that it keeps for each parameter.
    """
    return {"name": name, "parameters": _elements(parameters), "groups": groups, "variables": sorted(set(variables))}


def gap_entries(gaps: Mapping[str, str]) -> list[UncapturedEntry]:
    """Return the entries of what is not captured, or only in part, by the reasons."""
    return [{"what": what, "why": why} for what, why in gaps.items()]


def _elements(parameters: Iterable[HeldParameter]) -> int:
    return sum(math.prod(parameter.shape) for parameter in parameters)
