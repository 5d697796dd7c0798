"""Timing and volume of the collectives of ``torch.distributed``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import torch
from torch import distributed

from leadline.frameworks.patches import Patches
from leadline.training.guard import Guard
from leadline.training.timeline.step_timeline import StepTimeline

_INPUTS: Final[dict[str, tuple[int, tuple[str, ...]] | None]] = {
    "all_reduce": (0, ("tensor",)),
    "all_reduce_coalesced": (0, ("tensors",)),
    "all_gather": (1, ("tensor",)),
    "all_gather_into_tensor": (1, ("input_tensor",)),
    "all_gather_coalesced": (1, ("input_tensor_list",)),
    "all_gather_object": None,
    "all_to_all": (1, ("input_tensor_list",)),
    "all_to_all_single": (1, ("input",)),
    "barrier": None,
    "broadcast": (0, ("tensor",)),
    "broadcast_object_list": None,
    "gather": (0, ("tensor",)),
    "gather_object": None,
    "monitored_barrier": None,
    "recv": (0, ("tensor",)),
    "reduce": (0, ("tensor",)),
    "reduce_scatter": (1, ("input_list",)),
    "reduce_scatter_tensor": (1, ("input",)),
    "scatter": (0, ("tensor",)),
    "scatter_object_list": None,
    "send": (0, ("tensor",)),
}
"""Position and names of each function's input (of ``recv`` and ``scatter``: its output); None: takes objects."""


class _Depth(threading.local):
    calls = 0


class CollectiveHooks:
    """Reports each collective to a timeline, for the outermost call only.

    The functions are not hidden from Dynamo: it traces through them as if they were absent. Collectives started by C++,
    such as the gradient reduction of ``DistributedDataParallel``, are not observed.
    """

    def __init__(self, timeline: StepTimeline, guard: Guard) -> None:
        self._timeline, self._guard = timeline, guard
        self._patches, self._depth = Patches(), _Depth()

    def install(self) -> None:
        """Install the patches."""
        if not distributed.is_available():
            return
        for name in _INPUTS:
            for owner in (distributed.distributed_c10d, distributed):
                self._patches.replace(owner, name, self._make_collective, is_optional=True)

    def uninstall(self) -> None:
        """Remove the patches."""
        self._patches.restore()

    def _make_collective(self, original: Callable[..., Any]) -> Callable[..., Any]:
        record, run, depth, op = self._record, self._guard.run, self._depth, original.__name__
        clock = self._timeline.clock

        def collective(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or depth.calls:
                return original(*args, **kwargs)
            depth.calls += 1
            start_ns = clock()
            try:
                return original(*args, **kwargs)
            finally:
                depth.calls -= 1
                run(record, op, start_ns, args, kwargs)

        return collective

    def _record(self, op: str, start_ns: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._timeline.collective(start_ns, op, _group(args, kwargs), input_bytes(op, args, kwargs))


def input_bytes(op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | None:
    """Return the bytes of a collective's input tensors; None: the inputs are not tensors."""
    position = _INPUTS[op]
    if position is None:
        return None
    index, names = position
    inputs = args[index] if len(args) > index else next((kwargs[name] for name in names if name in kwargs), None)
    tensors: Iterable[Any] = (inputs,) if isinstance(inputs, torch.Tensor) else inputs or ()
    with torch._C.DisableTorchFunction():
        sizes = (tensor.numel() * tensor.element_size() for tensor in tensors if isinstance(tensor, torch.Tensor))
        return int(sum(sizes))


def _group(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    group = kwargs.get("group") or next((value for value in args if isinstance(value, distributed.ProcessGroup)), None)
    return str(group.group_name) if group is not None and group is not distributed.group.WORLD else "world"
