"""Post-import hooks: call something once, right after a module has been imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(name: str, call: Callable[[], None]) -> None:
    """Call ``call`` once the top-level module ``name`` is imported; at once if it is already."""
    if name in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _Finder(name, call))


class _Finder:
    """Finds nothing by itself: it lets the others find, and adds a call behind the module's execution."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._name, self._call = name, call

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _call_behind(spec, self._call)
                return spec
        return None


def _call_behind(spec: ModuleSpec, call: Callable[[], None]) -> None:
    loader: Any = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # the loader is as it was; the module keeps it
        execute(module)
        call()

    loader.exec_module = exec_module
