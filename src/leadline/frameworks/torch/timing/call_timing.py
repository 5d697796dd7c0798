"""Timing of data loading, checkpoints and collectives, which happen outside the forward and backward passes."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import dataloader

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.timeline.step_timeline import StepTimeline
from leadline.records.phases import CHECKPOINT


class _Depth(threading.local):
    calls = 0


class TimingHooks:
    """Reports calls of some functions to a timeline."""

    def __init__(self, timeline: StepTimeline, guard: Guard | HookGuard) -> None:
        self._timeline, self._guard = timeline, guard
        self._patches, self._depth = Patches(), _Depth()

    def install(self) -> None:
        """Replace the functions."""
        raise NotImplementedError

    def uninstall(self) -> None:
        """Restore the functions."""
        self._patches.restore()

    def _timed(self, original: Callable[..., Any], report: Callable[..., None], *leading: object) -> Callable[..., Any]:
        """Return a function that reports the outermost of nested calls.

        Args:
            report: Called with ``leading``, the time at which the call began, its positional and its keyword arguments.
        """
        run, depth, clock = self._guard.run, self._depth, self._timeline.clock

        def timed(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or depth.calls:
                return original(*args, **kwargs)
            depth.calls += 1
            start_ns = clock()
            try:
                return original(*args, **kwargs)
            finally:
                depth.calls -= 1
                run(report, *leading, start_ns, args, kwargs)

        return timed


# --- the wait for data ---------------------------------------------------------------------------------------


class DataLoaderHooks(TimingHooks):
    """Reports to a timeline when the training requests a batch from a loader, and when it receives it.

    Two methods are wrapped, both on classes: ``next`` of the loaders' iterators, and the one that creates an iterator
    (which starts its workers). Nothing is stored in a loader; loaders other than PyTorch's are not observed.
    """

    def __init__(self, timeline: StepTimeline, guard: HookGuard) -> None:
        super().__init__(timeline, guard)
        self._guard: HookGuard = guard

    def install(self) -> None:
        self._patches.replace(dataloader._BaseDataLoaderIter, "__next__", self._make_next)
        self._patches.replace(dataloader.DataLoader, "_get_iterator", self._make_get_iterator, is_optional=True)

    def _make_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        timeline, run, defer, clock = self._timeline, self._guard.run, self._guard.defer, self._guard.clock
        begin, end = timeline.begin_data, timeline.end_data

        def __next__(iterator: Any) -> Any:
            begun_ns = clock()
            if timeline.is_elsewhere():
                return original(iterator)
            timeline.is_loading = True
            if not defer(begun_ns, begin):
                run(begin)
            try:
                return original(iterator)
            except StopIteration:
                run(timeline.exhaust)
                raise
            finally:
                timeline.is_loading = False
                if not defer(clock(), end):
                    run(end)

        return hide_from_dynamo(__next__)

    def _make_get_iterator(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        timeline, run, describe = self._timeline, self._guard.run, self._describe

        def _get_iterator(loader: Any) -> Any:
            if timeline.is_elsewhere():
                return original(loader)
            timeline.is_loading = True
            run(describe, loader)
            try:
                return original(loader)
            finally:
                timeline.is_loading = False
                run(timeline.end_data)

        return hide_from_dynamo(_get_iterator)

    def _describe(self, loader: Any) -> None:
        size = getattr(loader, "batch_size", None)
        if size is None:
            size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
        self._timeline.begin_loader(loader.num_workers, size if isinstance(size, int) else None)


# --- checkpoints ---------------------------------------------------------------------------------------------

_LAZY_MODULES: Final = {
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save"),
    "safetensors.torch": ("save_file", "save_model"),
}
"""Modules that a script may import later, and the functions in them that save."""


class CheckpointHooks(TimingHooks):
    """Reports the duration of each save to a timeline, for the outermost call only."""

    def __init__(self, timeline: StepTimeline, guard: Guard) -> None:
        super().__init__(timeline, guard)
        self._imports = ImportWatch(_LAZY_MODULES, self._on_import)

    def install(self) -> None:
        for owner in (torch.serialization, torch):
            self._patches.replace(owner, "save", self._make_save)
        self._imports.install()

    def uninstall(self) -> None:
        self._imports.uninstall()
        super().uninstall()

    def _on_import(self, name: str, module: ModuleType) -> None:
        for function in _LAZY_MODULES[name]:
            self._patches.replace(module, function, self._make_save, is_optional=True)
            package = sys.modules.get(name.rpartition(".")[0])
            if package is not None and name.startswith("torch."):
                self._patches.replace(package, function, self._make_save, is_optional=True)

    def _make_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return hide_from_dynamo(self._timed(original, self._record))

    def _record(self, start_ns: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._timeline.call(CHECKPOINT, start_ns)


# --- collectives ---------------------------------------------------------------------------------------------

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


class CollectiveHooks(TimingHooks):
    """Reports each collective to a timeline, for the outermost call only.

    The functions are not hidden from Dynamo: it traces through them as if they were absent. Collectives started by C++,
    such as the gradient reduction of ``DistributedDataParallel``, are not observed.
    """

    def install(self) -> None:
        if not distributed.is_available():
            return
        for name in _INPUTS:
            for owner in (distributed.distributed_c10d, distributed):
                self._patches.replace(owner, name, self._make_collective, is_optional=True)

    def _make_collective(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return self._timed(original, self._record, original.__name__)

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


# --- gradient reduction --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reduction:
    """Gradient reduction at the end of a backward pass."""

    waited_ns: int
    bytes: int
    group: str


@dataclass(slots=True)
class Replica:
    """A model whose gradients are reduced in C++."""

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
        self.replicas: list[Replica] = []

    def discover(self, modules: Iterable[torch.nn.Module]) -> None:
        """Find the models whose gradients are reduced, among modules and their children."""
        known = {id(replica.model()) for replica in self.replicas}
        for module in modules:
            for model in (module, *module.children()):
                if isinstance(model, DistributedDataParallel) and id(model) not in known and _is_on_host(model):
                    self.replicas.append(Replica(weakref.ref(model), _bytes(model), _group_of(model)))

    def after_backward(self, backward_ns: int) -> list[Reduction]:
        """Return the reductions of a backward pass of this duration, with their waits."""
        reductions = []
        for replica in self.replicas:
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


def _is_on_host(model: Any) -> bool:
    return all(parameter.device.type == "cpu" for parameter in model.parameters())


def _bytes(model: Any) -> int:
    trained = (parameter for parameter in model.parameters() if parameter.requires_grad)
    return sum(parameter.numel() * parameter.element_size() for parameter in trained)


def _group_of(model: Any) -> str:
    group = model.process_group
    return "world" if group is torch.distributed.group.WORLD else str(group.group_name)
