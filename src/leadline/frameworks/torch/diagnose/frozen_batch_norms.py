"""Batch normalization whose weights are frozen, and that is in training mode all the same."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Final

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from leadline.frameworks.torch.capture.device_copy import is_recording

_COMPARED: Final = 64
"""Weights of each that are compared with earlier ones."""


class FrozenBatchNorms:
    """Counts the batch normalizations of a model that are frozen for good, and in training mode.

    Not frozen are those whose weights required a gradient at any earlier look (of two players, each is frozen while the
    other one is updated), and those whose weights change (an average of another model). Modules that a model gets after
    the first look are not found.
    """

    def __init__(self) -> None:
        self._found: weakref.WeakKeyDictionary[torch.nn.Module, list[weakref.ref[torch.nn.Module]]] = (
            weakref.WeakKeyDictionary()
        )
        """The batch normalizations of each model."""
        self._known: weakref.WeakKeyDictionary[torch.nn.Module, torch.Tensor] = weakref.WeakKeyDictionary()
        """The first weights of those that were frozen at every look so far, as they were at the first one."""
        self._trained: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

    def count(self, roots: Iterable[torch.nn.Module]) -> int | None:
        """Return how many there are in these models; None: they have no batch normalization with weights."""
        found = (reference() for root in roots for reference in self._batch_norms(root))
        modules = [module for module in found if module is not None]
        return sum(map(self._is_moving, modules)) if modules else None

    def _batch_norms(self, root: torch.nn.Module) -> list[weakref.ref[torch.nn.Module]]:
        if root not in self._found:
            self._found[root] = [weakref.ref(module) for module in root.modules() if _has_weights(module)]
        return self._found[root]

    def _is_moving(self, module: torch.nn.Module) -> bool:
        weight = module.weight
        assert isinstance(weight, torch.Tensor)
        if weight.is_inference() or module in self._trained or is_recording(weight.device):
            return False
        if any(parameter.requires_grad for parameter in module.parameters(recurse=False)):
            self._trained.add(module)
            return False
        before = self._known.get(module)
        if before is None:
            self._known[module] = weight.detach()[:_COMPARED].clone()
            return False
        if not module.training:
            return False
        # by their values, since ``weight.data.mul_(…)`` changes neither version nor place
        if not torch.equal(weight.detach()[:_COMPARED], before):
            self._trained.add(module)
            return False
        return True


def _has_weights(module: torch.nn.Module) -> bool:
    return isinstance(module, _BatchNorm) and module.track_running_stats and isinstance(module.weight, torch.Tensor)
