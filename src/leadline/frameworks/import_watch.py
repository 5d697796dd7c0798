"""Waiting for modules that a training may import: told once each has been executed, importing none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ImportWatch:
    """A finder that finds nothing by itself: it lets the others find, and hears when the module has been executed.

    **Leaves nothing** - a loader bears our function from its finding to the module's execution, no longer.
    """

    def __init__(self, names: Iterable[str], on_import: Callable[[str, ModuleType], None]) -> None:
        """
        Args:
            names: The modules waited for.
            on_import: Takes a module's name and the module, in the thread that imports it. Must not raise.
        """
        self._waited = set(names)
        self._on_import = on_import
        self._sought: set[str] = set()

    def install(self) -> None:
        """Begin to wait; a module that was executed already is told of at once."""
        self.look_again()
        if self._waited:
            sys.meta_path.insert(0, self)

    def look_again(self) -> None:
        """Tell of modules that are there by now: those whose execution was under way when we began to wait."""
        for name in sorted(self._waited & sys.modules.keys()):
            module = sys.modules[name]
            if module is not None and not _is_executing(module):
                self._tell(name, module)

    def uninstall(self) -> None:
        """Stop waiting."""
        self._waited.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """What the import system asks of each finder."""
        if name not in self._waited or name in self._sought:
            return None
        self._sought.add(name)  # another finder may ask all finders in its turn
        try:
            spec = _find_elsewhere(self, name, path, target)
        finally:
            self._sought.discard(name)
        if spec is not None and spec.loader is not None:
            self._listen(name, spec.loader)
        return spec

    def _listen(self, name: str, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == name:  # a loader of archives is shared by all modules in it
                if vars(loader).get("exec_module") is exec_module:
                    del loader.exec_module
                self._tell(name, module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            return  # a loader that cannot be listened to: its module goes unheard

    def _tell(self, name: str, module: ModuleType) -> None:
        if name in self._waited:
            self._waited.discard(name)
            self._on_import(name, module)


def _is_executing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _find_elsewhere(own: object, name: str, path: Any, target: Any) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not own else None
        if spec is not None:
            return spec
    return None
