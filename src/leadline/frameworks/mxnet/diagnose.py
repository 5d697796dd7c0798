"""Inventory of a training for ``leadline doctor``: models, optimizers, kinds of blocks, and what is not captured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from mxnet.module.base_module import BaseModule

from leadline.frameworks.kit.inventory import HeldParameter, gap_entries, model_entry, optimizer_entry
from leadline.frameworks.mxnet.blocks import kind_of
from leadline.frameworks.mxnet.capture import parameter_of, trained_by
from leadline.records.doctor_report import Inventory, ModelEntry, OptimizerEntry, UncapturedEntry

_MODULE: Final = "Module"
REASONS: Final = {
    _MODULE: "its steps are not captured; pass its outputs and gradients to leadline.Hook in a batch_end_callback",
}
CALLS: Final = ((BaseModule, "forward_backward", _MODULE),)
"""The calls by which a script begins to use what is not captured."""


def inventory(trainers: Sequence[Any], roots: Iterable[Any]) -> Inventory:
    """Describe the trainers that stepped, as plain values.

    Args:
        roots: The outermost blocks that the script calls.
    Returns:
        ``models`` and ``optimizers``, see ``leadline.frameworks.kit.inventory``; ``module_kinds``: every kind of block.
    """
    return {
        "models": [_model(root) for root in roots],
        "optimizers": [_optimizer(trainer) for trainer in trainers],
        "module_kinds": sorted({kind_of(block) for root in roots for block in _blocks(root)}),
    }


def coverage_gaps(
    trainers: Sequence[Any], roots: Iterable[Any], uncaptured: Mapping[str, str]
) -> list[UncapturedEntry]:
    """Return ``what`` is not captured, or only in part, and ``why``.

    Args:
        trainers: Those that stepped.
        roots: The outermost blocks that the script calls.
        uncaptured: Why what the script uses is not captured.
    """
    gaps = dict(uncaptured)
    for root in roots:
        for block in _blocks(root):
            if getattr(block, "_active", False) and len(list(_blocks(block))) > 1:
                gaps[block.name] = (
                    "it is hybridized: only its own inputs and outputs are captured; blocks inside it if they are "
                    "selected by name, as in --capture 'layers:regex=dense0_output'"
                )
                break
    for trainer in trainers:
        for parameter in trainer._params:
            if parameter._stype != "default":
                gaps[parameter.name] = "sparse weights are not captured; sparse gradients of dense weights are"
        if trainer._distributed and trainer._update_on_kvstore:
            kind = trainer._kvstore.type
            gaps[f"kvstore {kind}"] = "gradients are those of this worker: the store adds up those of all workers"
    if not trainers:
        gaps["no training step"] = "a step is a call of step or update of a gluon.Trainer; pass others to leadline.Hook"
    return gap_entries(gaps)


def _blocks(block: Any) -> Iterable[Any]:
    """Yield a block and all blocks inside it."""
    yield block
    for child in block._children.values():
        yield from _blocks(child)


def _model(root: Any) -> ModelEntry:
    known = [parameter for parameter in root.collect_params().values() if parameter._data is not None]
    return model_entry(type(root).__name__, map(_held, known))


def _optimizer(trainer: Any) -> OptimizerEntry:
    trained = [parameter_of(trainer, tensor) for tensor in trained_by(trainer)]
    return optimizer_entry(type(trainer._optimizer).__name__, map(_held, trained))


def _held(parameter: Any) -> HeldParameter:
    devices = tuple(map(str, parameter.list_ctx()))
    return HeldParameter(parameter.shape, np.dtype(parameter.dtype).name, devices, parameter.grad_req != "null")
