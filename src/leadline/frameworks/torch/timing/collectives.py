"""What ranks exchange through the functions of ``torch.distributed``: how often, how much, how long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import torch
from torch import distributed

from leadline.frameworks.torch.hooks.patches import Patches
from leadline.training.guard import Guard
from leadline.training.timeline.step_timeline import StepTimeline

_GIVEN: Final[dict[str, tuple[int, tuple[str, ...]] | None]] = {
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
"""Of each function where stands what this rank gives (of ``recv`` and ``scatter`` what it is given); None: objects."""


class _Depth(threading.local):
    calls = 0


class Collectives:
    """Tells a timeline of each exchange, the outermost call only.

    The functions are not hidden from Dynamo: it traces through them as if they were not there. What C++ calls by
    itself, as ``DistributedDataParallel`` reduces gradients, does not come by here.
    """

    def __init__(self, timeline: StepTimeline, guard: Guard) -> None:
        self._timeline, self._guard = timeline, guard
        self._patches, self._depth = Patches(), _Depth()

    def install(self) -> None:
        """Begin to tell."""
        if not distributed.is_available():
            return
        for name in _GIVEN:
            for owner in (distributed.distributed_c10d, distributed):
                self._patches.replace(owner, name, self._make)

    def uninstall(self) -> None:
        """Stop."""
        self._patches.restore()

    def _make(self, original: Callable[..., Any]) -> Callable[..., Any]:
        tell, run, depth, op = self._tell, self._guard.run, self._depth, original.__name__
        clock = self._timeline.clock

        def collective(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or depth.calls:
                return original(*args, **kwargs)
            depth.calls += 1
            begun_ns = clock()
            try:
                return original(*args, **kwargs)
            finally:
                depth.calls -= 1
                run(tell, op, begun_ns, args, kwargs)

        return collective

    def _tell(self, op: str, begun_ns: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._timeline.collective(begun_ns, op, _group(args, kwargs), given_bytes(op, args, kwargs))


def given_bytes(op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | None:
    """Bytes of the tensors that a rank gives to a collective; None: they are no tensors."""
    where = _GIVEN[op]
    if where is None:
        return None
    index, names = where
    given = args[index] if len(args) > index else next((kwargs[name] for name in names if name in kwargs), None)
    tensors: Iterable[Any] = (given,) if isinstance(given, torch.Tensor) else given or ()
    with torch._C.DisableTorchFunction():
        sizes = (each.numel() * each.element_size() for each in tensors if isinstance(each, torch.Tensor))
        return int(sum(sizes))


def _group(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    group = kwargs.get("group") or next((each for each in args if isinstance(each, distributed.ProcessGroup)), None)
    return str(group.group_name) if group is not None and group is not distributed.group.WORLD else "world"
