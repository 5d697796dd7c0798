"""``import smdebug`` without smdebug: its modules are those of this package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

_REAL: Final = "smdebug"
_OWN: Final = "leadline.compat.smdebug"


class _SameModule(Loader):
    """Loads a module of smdebug's name: the module of ours, of which there is only one."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(_OWN + spec.name.removeprefix(_REAL))
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec that the import has replaced; the module has been executed under its own name."""
        module.__spec__ = self._own_spec


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _REAL and not name.startswith(f"{_REAL}."):
            return None
        if importlib.util.find_spec(_OWN + name.removeprefix(_REAL)) is None:
            return None
        return ModuleSpec(name, _SameModule(), is_package=True)


def install(replace: bool = False) -> bool:
    """Make ``import smdebug`` import this package, in this process.

    Args:
        replace: Also where smdebug itself is installed.
    Returns:
        Whether it does; False: smdebug is installed and not replaced.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return True
    if not replace and (_REAL in sys.modules or PathFinder.find_spec(_REAL) is not None):
        return False
    for name in [name for name in sys.modules if name == _REAL or name.startswith(f"{_REAL}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
    return True
