"""Inputs and outputs of modules: one global forward hook, which exists only during a step that needs it."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np
import torch
from torch.nn.modules import module as torch_module

from leadline.frameworks.torch.dynamo import hide
from leadline.frameworks.torch.elements import local, why_unreadable
from leadline.frameworks.torch.models import Names, unwrap
from leadline.frameworks.torch.raw import RawForm, why_not_raw
from leadline.frameworks.torch.statistics import device_statistics
from leadline.probes.guard import Guard
from leadline.records.plan import CaptureItem, is_of_modules
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store.tensors import CaptureForm, HostBuffer

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
        self._names, self._guard, self._tell = names, guard, tell
        self._place = _Place()
        self.own_ns = 0
        self._handles: list[Any] = []
        self._items: Sequence[CaptureItem] = ()
        self._wished: dict[tuple[str, tuple[str, ...]], tuple[tuple[str, ...], bool]] = {}
        self._maps: weakref.WeakKeyDictionary[torch.nn.Module, dict[int, str]] = weakref.WeakKeyDictionary()
        self._seen_roots: set[str] = set()
        self._counts: dict[str, int] = {}
        self._found: list[tuple[TensorInfo, tuple[str, ...], list[float]]] = []
        self._raw: list[tuple[str, torch.Tensor]] = []
        self._forms: dict[tuple[Any, ...], RawForm] = {}
        self._layouts: dict[SeriesLayout, SeriesLayout] = {}

    def begin(self, items: Sequence[CaptureItem]) -> None:
        """Watch from here on; the hooks stay until ``end``."""
        self.end()
        self._items, self._wished, self.own_ns = items, {}, 0
        self._seen_roots, self._counts, self._found, self._raw = set(), {}, [], []
        self._handles = [
            torch_module.register_module_forward_pre_hook(self._make_before()),
            torch_module.register_module_forward_hook(self._make_after(), always_call=True),
        ]

    def end(self) -> None:
        """Take the hooks away; what was captured waits in ``row`` and ``raw_form``."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def row(self) -> tuple[SeriesLayout, bytes] | None:
        """The statistics of what was captured since ``begin``."""
        if not self._found:
            return None
        tensors = tuple(info for info, _, _ in self._found)
        columns = [(index, name) for index, (_, names, _) in enumerate(self._found) for name in names]
        values = [value for _, _, each in self._found for value in each]
        found = SeriesLayout(tensors, tuple(columns))
        self._found = []
        return self._layouts.setdefault(found, found), np.array(values, dtype="<f8").tobytes()

    def raw_form(self) -> CaptureForm | None:
        """The form of the raw tensors that were captured."""
        if not self._raw:
            return None
        key = tuple((name, tensor.shape, tensor.dtype) for name, tensor in self._raw)
        if key not in self._forms:
            if len(self._forms) > 16:
                self._forms.clear()  # shapes that never come back
            self._forms[key] = RawForm(self._raw, "train")
        return self._forms[key].form

    def fill(self, buffer: HostBuffer) -> None:
        """Copy the raw tensors into a buffer of ``raw_form()``."""
        key = tuple((name, tensor.shape, tensor.dtype) for name, tensor in self._raw)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self._forms[key].fill(buffer, [tensor for _, tensor in self._raw])
        self._raw = []

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
        place, guard, take = self._place, self._guard, self._take

        def after(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if torch._C._current_graph_task_id() != -1:
                return
            place.depth = max(place.depth - 1, 0)
            if place.is_first:
                begun_ns = time.perf_counter_ns()
                guard.run(take, module, args, output)
                self.own_ns += time.perf_counter_ns() - begun_ns

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
                    self._keep(f"{name}_{side}", own, tensor)

    def _keep(self, stem: str, collections: tuple[str, ...], tensor: torch.Tensor) -> None:
        index = self._counts[stem] = self._counts.get(stem, -1) + 1
        name = f"{stem}_{index}"
        statistics, is_raw = self._wish(name, collections)
        if not statistics and not is_raw:
            return
        own = local(tensor.detach())
        why = why_unreadable(own)
        if why is not None:
            self._tell(f"{name} is not read: {why}")
            return
        if statistics:
            computed = device_statistics([own], frozenset(statistics))
            info = TensorInfo(name, collections, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            self._found.append((info, statistics, [float(computed[each][0]) for each in statistics]))
        if is_raw:
            why = why_not_raw(own)
            if why is None:
                self._raw.append((name, own.clone()))
            else:
                self._tell(f"{name} is not stored: {why}")

    def _wish(self, name: str, collections: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
        key = (name, collections)
        if key not in self._wished:
            chosen = [item for item in self._items if _selects(item, name, collections)]
            statistics = {each for item in chosen for each in item.statistics} - {"value", "update_ratio"}
            self._wished[key] = (tuple(sorted(statistics)), any(item.raw for item in chosen))
        return self._wished[key]


def _selects(item: CaptureItem, name: str, collections: tuple[str, ...]) -> bool:
    return is_of_modules(item) and item.selects(name, frozenset(collections))


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
