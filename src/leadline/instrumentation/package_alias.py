"""A package under a second name, for scripts that import it by that."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class _SameModule(Loader):
    """Loads a module under its second name: the one module, which is executed once."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec that the import has replaced; the module has been executed under its own name."""
        module.__spec__ = self._own_spec


class _Finder(MetaPathFinder):
    def __init__(self, alias: str, package: str) -> None:
        self.alias, self._package = alias, package

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.alias and not name.startswith(f"{self.alias}."):
            return None
        own = self._package + name.removeprefix(self.alias)
        if importlib.util.find_spec(own) is None:
            return None
        return ModuleSpec(name, _SameModule(own), is_package=True)


def alias_package(alias: str, package: str, *, replace: bool = False) -> bool:
    """Make ``import <alias>`` import a package, in this process.

    Args:
        replace: Also where a package with the name ``alias`` is installed.
    Returns:
        Whether it does; False: such a package is installed and not replaced.
    Raises:
        ImportError: The package cannot be imported.
    """
    if any(isinstance(finder, _Finder) and finder.alias == alias for finder in sys.meta_path):
        return True
    if not replace and (alias in sys.modules or PathFinder.find_spec(alias) is not None):
        return False
    import_module(package)
    for name in [name for name in sys.modules if name == alias or name.startswith(f"{alias}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder(alias, package))
    return True
