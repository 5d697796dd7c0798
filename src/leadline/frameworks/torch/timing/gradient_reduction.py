"""Wait of a rank for the others while ``DistributedDataParallel`` reduces gradients in the backward pass."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True, slots=True)
class Reduction:
    """Gradient reduction at the end of a backward pass."""

    waited_ns: int
    bytes: int
    group: str


@dataclass(slots=True)
class _Replica:
    model: weakref.ref[Any]
    bytes: int
    group: str
    last_ready: list[int] = field(default_factory=list)


class GradientReductions:
    """Asks the reducers of trained models when their last gradient was ready.

    The reduction runs in C++, which calls no Python function. But a reducer records when each gradient was ready, in ns
    since the forward pass ended, so that the time of the backward pass after the last of them is the wait for the other
    ranks (a lower bound: time between the passes counts as computation). The query takes a microsecond and changes
    nothing. Gradients on an accelerator, which the host does not wait for, are not reported.
    """

    def __init__(self) -> None:
        self._replicas: list[_Replica] = []

    def discover(self, modules: Iterable[torch.nn.Module]) -> None:
        """Find the models whose gradients are reduced, among modules and their children."""
        known = {id(replica.model()) for replica in self._replicas}
        for module in modules:
            for model in (module, *module.children()):
                if isinstance(model, DistributedDataParallel) and id(model) not in known and _is_on_host(model):
                    self._replicas.append(_Replica(weakref.ref(model), _bytes(model), _group(model)))

    def after_backward(self, backward_ns: int) -> list[Reduction]:
        """Return the reductions of a backward pass of this duration, with their waits."""
        reductions = []
        for replica in self._replicas:
            model = replica.model()
            if model is None or not model.require_backward_grad_sync:
                continue
            ready = model.reducer.get_backward_stats()
            if ready and isinstance(ready[0], list):  # a list for each replica, in earlier versions
                ready = ready[0]
            if ready and ready != replica.last_ready:  # otherwise the model had no part in this pass
                replica.last_ready = ready
                reductions.append(Reduction(max(backward_ns - max(ready), 0), replica.bytes, replica.group))
        return reductions

    def __bool__(self) -> bool:
        return bool(self._replicas)


def _is_on_host(model: Any) -> bool:
    return all(parameter.device.type == "cpu" for parameter in model.parameters())


def _bytes(model: Any) -> int:
    trained = (parameter for parameter in model.parameters() if parameter.requires_grad)
    return sum(parameter.numel() * parameter.element_size() for parameter in trained)


def _group(model: Any) -> str:
    group = model.process_group
    return "world" if group is torch.distributed.group.WORLD else str(group.group_name)
