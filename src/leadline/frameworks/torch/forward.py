"""Inputs and outputs of modules: one global forward hook, which exists only during a step that needs it."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch
from torch.nn.modules import module as torch_module

from leadline.frameworks.torch.captured import CapturedTensors
from leadline.frameworks.torch.dynamo import hide
from leadline.frameworks.torch.models import Names, unwrap
from leadline.probes.guard import Guard
from leadline.records.plan import CaptureItem

_DEEPEST: Final = 4
"""How deep containers within containers are followed."""


class _Place(threading.local):
    """Where in the modules' calls a thread is."""

    depth = 0
    is_first = False
    names: Mapping[int, str] = {}
    root_name = ""


class ForwardWatch:
    """Captures what the modules of a training step's first forward pass take and give.

    Names: ``<module>_input_<i>`` and ``<module>_output_<i>``; of the root and of loss modules their class stands for
    the module. A module that is called again within the pass goes on counting. Recomputations inside a backward
    pass are nobody's forward pass. What is captured is read at once, before somebody can change it in place.
    """

    def __init__(self, names: Names, guard: Guard, tell: Callable[[str], None]) -> None:
        self._names, self._guard = names, guard
        self.captured = CapturedTensors(tell)
        self._place = _Place()
        self._handles: list[Any] = []
        self._maps: weakref.WeakKeyDictionary[torch.nn.Module, dict[int, str]] = weakref.WeakKeyDictionary()
        self._seen_roots: set[str] = set()

    def begin(self, items: Sequence[CaptureItem]) -> None:
        """Watch from here on; the hooks stay until ``end``."""
        self.end()
        self.captured.begin(items, "train")
        self._seen_roots = set()
        self._handles = [
            torch_module.register_module_forward_pre_hook(self._make_before()),
            torch_module.register_module_forward_hook(self._make_after(), always_call=True),
        ]

    def end(self) -> None:
        """Take the hooks away; what was captured waits in ``captured``."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    # --- inside the user's forward pass -------------------------------------------------------------------

    def _make_before(self) -> Callable[..., None]:
        place, guard, enter = self._place, self._guard, self._enter

        def before(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if torch._C._current_graph_task_id() != -1:
                return
            if place.depth == 0:
                place.is_first = False
                guard.run(enter, module)
            place.depth += 1

        return hide(before)

    def _make_after(self) -> Callable[..., None]:
        place, guard, take, captured = self._place, self._guard, self._take, self.captured

        def after(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if torch._C._current_graph_task_id() != -1:
                return
            place.depth = max(place.depth - 1, 0)
            if place.is_first:
                begun_ns = time.perf_counter_ns()
                guard.run(take, module, args, output)
                captured.own_ns += time.perf_counter_ns() - begun_ns

        return hide(after)

    def _enter(self, root: torch.nn.Module) -> None:
        """An outermost call begins: is it the first of a model in training, or of a loss, in this step?"""
        place = self._place
        is_loss = isinstance(root, torch.nn.modules.loss._Loss)
        if not is_loss and not root.training:
            return
        place.names, place.root_name = self._map_of(root)
        place.is_first = place.root_name not in self._seen_roots
        self._seen_roots.add(place.root_name)

    def _map_of(self, root: torch.nn.Module) -> tuple[dict[int, str], str]:
        inner = unwrap(root)
        own = type(inner).__name__
        if root not in self._maps:
            prefix = self._names.prefix(root)
            named = {id(module): prefix + name for name, module in inner.named_modules() if name}
            self._maps[root] = {**named, id(inner): prefix.removesuffix("_") or own}
        return self._maps[root], self._maps[root][id(inner)]

    def _take(self, module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        name = self._place.names.get(id(module))
        if name is None or output is None:
            return
        kind = _kind(module)
        is_root = name == self._place.root_name
        is_loss = is_root and isinstance(module, torch.nn.modules.loss._Loss)
        with torch._C.DisableTorchFunction(), torch.no_grad(), torch.autocast("cpu", enabled=False):
            for side, values in (("input", args), ("output", output)):
                for index, tensor in enumerate(_tensors(values)):
                    own: tuple[str, ...] = ("layers", f"{kind}_{side}")
                    if is_loss and side == "input":
                        own = ("predictions" if index == 0 else "labels", *own)
                    elif is_root and not is_loss:
                        own = (f"{side}s", *own)
                    self.captured.keep(self.captured.name(f"{name}_{side}"), own, tensor)


def _kind(module: torch.nn.Module) -> str:
    """What a module is called among its like: ``relu``, ``tanh``, ``batchnorm2d`` …"""
    return type(module).__name__.lower()


def _tensors(values: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors in what a module takes or gives: tuples, lists, mappings and dataclasses are followed."""
    if isinstance(values, torch.Tensor):
        yield values
    elif depth >= _DEEPEST:
        return
    elif isinstance(values, Mapping):
        for each in values.values():
            yield from _tensors(each, depth + 1)
    elif isinstance(values, (tuple, list)):
        for each in values:
            yield from _tensors(each, depth + 1)
    elif is_dataclass(values) and not isinstance(values, type):
        for field in fields(values):
            yield from _tensors(getattr(values, field.name), depth + 1)
