"""Callbacks after the import of modules by the training, without importing any."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ImportWatch:
    """A finder that lets the other finders find, and calls back when a module has been executed.

    **Leaves nothing** - a loader carries our function only until its module has been executed.
    """

    def __init__(self, names: Iterable[str], on_import: Callable[[str, ModuleType], None]) -> None:
        """
        Args:
            names: The modules to wait for.
            on_import: Takes a module's name and the module, in the thread that imports it. Must not raise.
        """
        self._pending = set(names)
        self._on_import = on_import
        self._searching: set[str] = set()

    def install(self) -> None:
        """Begin to wait; report modules that have been executed already at once."""
        self.look_again()
        if self._pending:
            sys.meta_path.insert(0, self)

    def look_again(self) -> None:
        """Report modules that have been executed since ``install``, when their import was in progress."""
        for name in sorted(self._pending & sys.modules.keys()):
            module = sys.modules[name]
            if module is not None and not _is_executing(module):
                self._report(name, module)

    def uninstall(self) -> None:
        """Stop waiting."""
        self._pending.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find a module with the other finders; called by the import system."""
        if name not in self._pending or name in self._searching:
            return None
        self._searching.add(name)  # another finder may ask all finders itself
        try:
            spec = _find_with_others(self, name, path, target)
        finally:
            self._searching.discard(name)
        if spec is not None and spec.loader is not None:
            self._wrap(name, spec.loader)
        return spec

    def _wrap(self, name: str, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == name:  # a loader of archives is shared by all modules in it
                if vars(loader).get("exec_module") is exec_module:
                    del loader.exec_module
                self._report(name, module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            return  # a loader that cannot be wrapped: its module is not reported

    def _report(self, name: str, module: ModuleType) -> None:
        if name in self._pending:
            self._pending.discard(name)
            self._on_import(name, module)


def _is_executing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _find_with_others(own: object, name: str, path: Any, target: Any) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not own else None
        if spec is not None:
            return spec
    return None
