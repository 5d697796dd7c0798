"""Inventory of a training for ``leadline doctor``: models, optimizers, kinds of blocks, and what is not captured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from mxnet.module.base_module import BaseModule

from leadline.frameworks.kit.inventory import HeldParameter, gap_entries, model_entry, optimizer_entry
from leadline.frameworks.mxnet.blocks import kind_of
from leadline.frameworks.mxnet.capture import parameter_of, trained_by
from leadline.frameworks.patches import Patches
from leadline.training.guard import Guard

_MODULE: Final = "Module"
_REASONS: Final = {
    _MODULE: "its steps are not captured; pass its outputs and gradients to leadline.Hook in a batch_end_callback",
}


class ModuleNotice:
    """Notices a Module when the script trains it; the script is not disturbed.

    Args:
        note: Takes a line about something that cannot be captured.

    Attributes:
        seen: The keys of the reasons that apply to the script.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.seen: list[str] = []
        self._note = note
        self._patches = Patches()

    def install(self, guard: Guard) -> None:
        """Begin to watch."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def forward_backward(module: Any, data_batch: Any) -> Any:
                guard.run(self._notice, _MODULE)
                return original(module, data_batch)

            return forward_backward

        self._patches.replace(BaseModule, "forward_backward", make)

    def uninstall(self) -> None:
        """Stop watching."""
        self._patches.restore()

    def _notice(self, what: str) -> None:
        if what not in self.seen:
            self.seen.append(what)
            self._note(f"{what}: {_REASONS[what]}")


def inventory(trainers: Sequence[Any], roots: Iterable[Any]) -> dict[str, Any]:
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


def coverage_gaps(trainers: Sequence[Any], roots: Iterable[Any], uncaptured: Sequence[str]) -> list[dict[str, str]]:
    """Return ``what`` is not captured, or only in part, and ``why``.

    Args:
        trainers: Those that stepped.
        roots: The outermost blocks that the script calls.
        uncaptured: What ``ModuleNotice`` has seen.
    """
    gaps = {what: _REASONS[what] for what in uncaptured}
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


def _model(root: Any) -> dict[str, Any]:
    known = [each for each in root.collect_params().values() if each._data is not None]
    return model_entry(type(root).__name__, map(_held, known))


def _optimizer(trainer: Any) -> dict[str, Any]:
    trained = [parameter_of(trainer, each) for each in trained_by(trainer)]
    return optimizer_entry(type(trainer._optimizer).__name__, map(_held, trained))


def _held(parameter: Any) -> HeldParameter:
    devices = tuple(map(str, parameter.list_ctx()))
    return HeldParameter(parameter.shape, np.dtype(parameter.dtype).name, devices, parameter.grad_req != "null")
