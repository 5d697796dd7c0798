"""Capture of blocks inside a hybridized block, which runs them as operators of one graph."""

from __future__ import annotations

import ctypes
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from mxnet.base import NDArrayHandle
from mxnet.ndarray import NDArray

from leadline.instrumentation.guard import Guard
from leadline.records.plan import CaptureItem, may_select_module_tensors

_OUTPUT: Final = re.compile(r"(.+)_fwd_output(\d*)")
"""What the outputs of a block's operator are called: ``dense0_fwd_output``."""
Keep = Callable[[str, tuple[str, ...], Any], None]
"""Takes the name, the collections and the array of an output."""


def asks_by_name(items: Sequence[CaptureItem]) -> bool:
    """Return whether the user's own options name layers."""
    return any(
        item.source == "option" and (item.regex or item.modules) is not None and may_select_module_tensors(item)
        for item in items
    )


class InnerBlocks:
    """Hooks on the operators of hybridized blocks, set where a capture asks for layers by name.

    **Stays** - MXNet cannot remove such a hook; between captures it only frees what it is given, which takes a few
    microseconds for each operator.

    Args:
        kind_of: Returns what a block is, in lower case.
    """

    def __init__(self, guard: Guard, kind_of: Callable[[Any], str]) -> None:
        self._guard, self._kind_of = guard, kind_of
        self._hooked: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """The graphs that have a hook, by their blocks."""
        self._keep: Keep | None = None
        self._kinds: dict[str, str] = {}
        self._thread = 0

    def begin(self, block: Any, keep: Keep) -> None:
        """Begin the call of a block; a graph that is not built yet has no operators."""
        graph = getattr(block, "_cached_op", None)
        if graph is None or not block._active:
            return
        if self._hooked.get(block) is not graph:
            self._hooked[block] = graph
            graph._register_op_hook(self._on_output)
        self._kinds = {inner.name: self._kind_of(inner) for child in block._children.values() for inner in _all(child)}
        self._keep, self._thread = keep, threading.get_ident()

    def end(self) -> None:
        """End the call."""
        self._keep = None

    def _on_output(self, name: bytes, operator: bytes, handle: int) -> None:
        """Take an output of an operator, which is ours to free."""
        array = NDArray(ctypes.cast(handle, NDArrayHandle), writable=False)
        keep = self._keep
        if keep is not None and threading.get_ident() == self._thread:
            self._guard.run(self._take, name.decode(), array, keep)

    def _take(self, name: str, array: Any, keep: Keep) -> None:
        match = _OUTPUT.fullmatch(name)
        kind = self._kinds.get(match[1]) if match else None
        if match and kind is not None:
            keep(f"{match[1]}_output_{match[2] or 0}", ("layers", f"{kind}_output"), array)


def _all(block: Any) -> Sequence[Any]:
    return [block, *(inner for child in block._children.values() for inner in _all(child))]
