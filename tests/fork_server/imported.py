"""Modules that the server has imported, set aside until the program imports their package."""

from __future__ import annotations

import ctypes
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_OURS = frozenset({"fork_server", "__main__", "__mp_main__"})


class _Loader:
    """Loads a module by taking it back, with those that its package imported at the same time."""

    def __init__(self, finder: SetAside, name: str, found: ModuleType) -> None:
        self._finder, self._name, self._module = finder, name, found
        self._spec: ModuleSpec | None = getattr(found, "__spec__", None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
        if self._spec is not None and self._spec.loader is not None:
            module.__loader__ = self._spec.loader
        self._finder.take_back(self._name)

    def __getattr__(self, name: str) -> Any:  # is_package, get_source, get_data of the real one
        return getattr(self.__dict__["_spec"].loader, name)


class SetAside:
    """A finder of the modules that were imported since ``before``, which it removes from ``sys.modules``.

    A package is found here only if the path would give the same file: a ``psutil.py`` beside the script comes first.

    Args:
        before: The names of the modules that stay.
        late: The import in which a module came, for those that came in one of their own. What a package imports later
            than itself is taken back only when it is imported.
    """

    def __init__(self, before: set[str], late: dict[str, str]) -> None:
        self._late = late
        self._all: dict[str, Any] = {}
        for name in [name for name in sys.modules if name not in before]:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in _OURS:
                self._all[name] = sys.modules.pop(name)
        for name in late.keys() & self._all.keys():
            top, _, last = name.rpartition(".")
            if top in self._all and top not in late and "." not in top:
                vars(self._all[top]).pop(last, None)  # as before that import
        self._waiting = dict(self._all)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._all))

    def module(self, name: str) -> Any:
        """Return a module that was imported, wherever it is now; None if it was not."""
        return self._all.get(name)

    def leave_to_the_system(self) -> None:
        """Spare the end of this process from deallocating these modules, which takes longer than its start."""
        for name in self._all:
            sys.modules.pop(name, None)

    def forget(self, name: str) -> None:
        """Let a module be imported anew: it is going to run as ``__main__``."""
        self._waiting.pop(name, None)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        found = self._waiting.get(name)
        if found is None or ("." not in name and not self._would_be_found(name, found)):
            return None
        real: ModuleSpec | None = getattr(found, "__spec__", None)
        loader: Any = _Loader(self, name, found)
        spec = ModuleSpec(name, loader, origin=real.origin if real else None, is_package=hasattr(found, "__path__"))
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.extend(found.__path__)
        spec.has_location = bool(real and real.has_location)
        return spec

    def _would_be_found(self, name: str, found: ModuleType) -> bool:
        spec: ModuleSpec | None = getattr(found, "__spec__", None)
        elsewhere = PathFinder.find_spec(name)
        if spec is not None and elsewhere is not None and elsewhere.origin == spec.origin:
            return True
        if elsewhere is not None:
            for other in [other for other in self._waiting if other.partition(".")[0] == name]:
                del self._waiting[other]
        return False

    def take_back(self, name: str) -> None:
        """Put the modules of the same package that came in the same import back into ``sys.modules``."""
        if name not in self._waiting:  # another one of its package is being taken back, with it
            return
        top, late = name.partition(".")[0], self._late.get(name)
        del self._waiting[name]
        together = [
            other for other in self._waiting if other.partition(".")[0] == top and self._late.get(other) == late
        ]
        for other in together:
            loader = self._watched_loader(other)
            module = self._waiting.pop(other)
            if other in sys.modules:
                continue
            sys.modules[other] = module
            parent, _, last = other.rpartition(".")
            if parent == top and top in sys.modules:
                vars(sys.modules[top]).setdefault(last, module)
            if loader is not None:
                loader.exec_module(module)

    def _watched_loader(self, name: str) -> Any:
        """Return the loader of a module if a finder before this one watches for its import."""
        for finder in sys.meta_path:
            if finder is self:
                return None
            spec = finder.find_spec(name, None, None)
            if spec is not None:
                return spec.loader
        return None
