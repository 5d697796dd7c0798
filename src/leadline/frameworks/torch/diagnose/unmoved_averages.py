"""Copies of a trained model that are evaluated by running averages of batch normalization of the start."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

from leadline.frameworks.torch.capture.device_copy import Copy, copier_of
from leadline.frameworks.torch.naming.model_names import unwrap
from leadline.records.names import UNMOVED_AVERAGES

_MAX_MODELS, _MAX_WEIGHTS = 4, 16


@dataclass(slots=True)
class _Copied:
    """A model without an optimizer that was called in evaluation mode, without gradients."""

    size: float | None = None
    """The norm of its weights at the first look."""
    pending: Sequence[float] | Copy | None = None
    """The latest look: the norm of its weights, then what ``_distances`` returns; it may still be on its way."""


class UnmovedAverages:
    """Compares the running averages of such models with those of a trained one with the same normalizations.

    A look takes some operations for each of these models, and never waits: what is on an accelerator is known at the
    next look. A model without such averages, or whose weights stay as they are, is not reported.
    """

    def __init__(self) -> None:
        self._called: weakref.WeakKeyDictionary[torch.nn.Module, _Copied] = weakref.WeakKeyDictionary()

    def note(self, called: torch.nn.Module) -> None:
        """Note that an outermost module was called without gradients."""
        if called.training or called in self._called or len(self._called) >= _MAX_MODELS:
            return
        if any(not module.training for module in _normalizations(called)):
            self._called[called] = _Copied()

    def results(self, trained: Iterable[torch.nn.Module]) -> dict[str, float]:
        """Return how many averages of a model are those of the start, and not in its trained one; empty: none are.

        Args:
            trained: The outermost modules of trained models.
        """
        found: dict[str, float] = {}
        if not self._called:
            return found
        originals = [_normalizations(root) for root in trained]
        own = {id(module) for modules in originals for module in modules}
        for model, known in list(self._called.items()):
            modules = _normalizations(model)
            original = next((one for one in originals if _are_alike(one, modules)), None)
            if original is None or any(id(module) in own for module in modules):
                continue
            count = _look(known, model, modules, original)
            if count:
                found[f"{type(unwrap(model)).__name__}/{UNMOVED_AVERAGES}"] = float(count)
        return found


def _normalizations(root: torch.nn.Module) -> list[Any]:
    """Return the normalizations of a model that have running averages."""
    return [
        module
        for module in root.modules()
        if isinstance(module, _NormBase) and module._buffers.get("running_var") is not None
    ]


def _are_alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    shapes = [[(type(module), module.num_features) for module in modules] for modules in (one, other)]
    return bool(one) and shapes[0] == shapes[1]


def _look(known: _Copied, model: torch.nn.Module, modules: Sequence[Any], original: Sequence[Any]) -> int:
    """Look at a model, and return how many of its averages are unmoved by the latest look that has arrived."""
    before = known.pending
    if before is None or isinstance(before, Sequence) or before.is_done():
        device = modules[0].running_var.device
        weights = [parameter.detach() for parameter in islice(model.parameters(), _MAX_WEIGHTS)]
        tensors = [*weights, *(module.running_var for module in (*modules, *original))]
        copier = copier_of(device)
        is_recording = copier is not None and copier.is_recording()
        if is_recording or not weights or any(tensor.device != device or tensor.is_meta for tensor in tensors):
            return 0
        norm = torch.linalg.vector_norm(torch.stack([part.double() for part in torch._foreach_norm(weights)]))
        numbers = torch.cat([norm[None], _distances(modules), _distances(original)])
        known.pending = numbers.tolist() if copier is None else copier.fetch(numbers)
        before = known.pending if copier is None else before
    if before is None or not (isinstance(before, Sequence) or before.is_done()):
        return 0
    size, *distances = before if isinstance(before, Sequence) else before.numbers().tolist()
    known.size = size if known.size is None else known.size
    if size == known.size:
        return 0
    pairs = zip(distances[: len(modules)], distances[len(modules) :], strict=True)
    return sum(of_copy == 0 and of_original != 0 for of_copy, of_original in pairs)


def _distances(modules: Sequence[Any]) -> torch.Tensor:
    """Return for each module how far its averages are from 0 and 1: the largest difference of an element."""
    means, variances = zip(*((module.running_mean, module.running_var) for module in modules), strict=True)
    sizes = torch._foreach_norm([*means, *torch._foreach_sub(list(variances), 1.0)], math.inf)
    return torch.stack(sizes).double().view(2, len(modules)).amax(0)
