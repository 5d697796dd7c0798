"""How long a rank waits for the others where ``DistributedDataParallel`` reduces gradients, in a backward pass."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True, slots=True)
class Reduction:
    """What the end of a backward pass was spent with."""

    waited_ns: int
    bytes: int
    group: str


@dataclass(slots=True)
class _Replica:
    model: weakref.ref[Any]
    bytes: int
    group: str
    seen: list[int] = field(default_factory=list)


class GradientReductions:
    """Asks the reducers of the models that are trained when their last gradient was ready.

    The reduction happens in C++, where no function of ours is called. But a reducer keeps when each gradient was ready,
    in ns since the forward pass ended, so that what the backward pass takes beyond the last of them is the wait for the
    other ranks (at least: what lies between the passes counts as computed). To ask takes a microsecond and changes
    nothing. Of gradients on an accelerator, which the host does not wait for, nothing is said.
    """

    def __init__(self) -> None:
        self._replicas: list[_Replica] = []

    def look(self, modules: Iterable[torch.nn.Module]) -> None:
        """Find the models whose gradients are reduced."""
        known = {id(each.model()) for each in self._replicas}
        for module in modules:
            for each in (module, *module.children()):
                if isinstance(each, DistributedDataParallel) and id(each) not in known and _is_on_host(each):
                    self._replicas.append(_Replica(weakref.ref(each), _bytes(each), _group(each)))

    def after_backward(self, backward_ns: int) -> list[Reduction]:
        """What was waited for in a backward pass that took so long."""
        found = []
        for replica in self._replicas:
            model = replica.model()
            if model is None or not model.require_backward_grad_sync:
                continue
            ready = model.reducer.get_backward_stats()
            if ready and isinstance(ready[0], list):  # a list for each replica, in earlier versions
                ready = ready[0]
            if ready and ready != replica.seen:  # else it had no part in this pass
                replica.seen = ready
                found.append(Reduction(max(backward_ns - max(ready), 0), replica.bytes, replica.group))
        return found

    def __bool__(self) -> bool:
        return bool(self._replicas)


def _is_on_host(model: Any) -> bool:
    return all(each.device.type == "cpu" for each in model.parameters())


def _bytes(model: Any) -> int:
    return sum(each.numel() * each.element_size() for each in model.parameters() if each.requires_grad)


def _group(model: Any) -> str:
    group = model.process_group
    return "world" if group is torch.distributed.group.WORLD else str(group.group_name)
