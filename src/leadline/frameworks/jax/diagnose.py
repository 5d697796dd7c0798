"""Inventory of a training for ``leadline doctor``: what is updated, kinds of layers, and what is not captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import jax

from leadline.frameworks.jax.step_calls import StepOwner
from leadline.frameworks.jax.tensors import info_of, tensors_of
from leadline.frameworks.kit.inventory import HeldParameter, gap_entries, model_entry, optimizer_entry
from leadline.frameworks.kit.named_tensor import GRADIENTS, NamedTensor
from leadline.records.doctor_report import Inventory, ModelEntry, OptimizerEntry, UncapturedEntry
from leadline.records.names import OPTIMIZER_VARIABLES

_PARAMETERS: Final = frozenset({"weights", "biases"})


def inventory(owners: Sequence[StepOwner]) -> Inventory:
    """Describe the functions that train, as plain values.

    Returns:
        ``models`` and ``optimizers``, see ``leadline.frameworks.kit.inventory``; ``module_kinds``: every
        kind of layer that was called.
    """
    tensors = {owner: tensors_of(owner.sites, owner.prefix) for owner in owners}
    kinds = {
        collection.removesuffix("_output")
        for found in tensors.values()
        for tensor in found
        for collection in tensor.collections
        if collection.endswith("_output")
    }
    return {
        "models": [_model(owner, found) for owner, found in tensors.items()],
        "optimizers": [_optimizer(owner, found) for owner, found in tensors.items() if owner.optimizer],
        "module_kinds": sorted(kinds),
    }


def coverage_gaps(uncaptured: Mapping[str, str], *, has_stepped: bool) -> list[UncapturedEntry]:
    """Return ``what`` is not captured, or only in part, and ``why``.

    Args:
        uncaptured: Why what the script uses is not captured.
        has_stepped: Whether a step was seen.
    """
    gaps = dict(uncaptured)
    if not has_stepped:
        gaps["no training step"] = (
            "a step is a call of a function of jax.jit that computes gradients with jax.grad or jax.value_and_grad, or "
            "that updates with an optimizer of optax"
        )
    return gap_entries(gaps)


def _model(owner: StepOwner, tensors: Sequence[NamedTensor]) -> ModelEntry:
    return model_entry(owner.model, [_held(tensor) for tensor in tensors if _PARAMETERS & set(tensor.collections)])


def _optimizer(owner: StepOwner, tensors: Sequence[NamedTensor]) -> OptimizerEntry:
    gradients = [_held(tensor) for tensor in tensors if tensor.collections == GRADIENTS]
    states = [tensor for tensor in tensors if OPTIMIZER_VARIABLES in tensor.collections]
    return optimizer_entry(owner.optimizer, gradients, [_kind(tensor.source.tap.name) for tensor in states])


def _held(tensor: NamedTensor) -> HeldParameter:
    info = info_of(tensor, ())
    return HeldParameter(info.shape, info.dtype, (jax.default_backend(),))


def _kind(name: str) -> str:
    """Return the part of the name of a state that says what it is: ``mu`` of ``0/mu/dense/kernel``."""
    return next((part for part in name.split("/") if not part.isdigit()), name)
