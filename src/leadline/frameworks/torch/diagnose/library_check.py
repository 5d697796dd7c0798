"""A check of how a training uses another library, which is observed from its import on."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.instrumentation.guard import Fact


class LibraryCheck:
    """Replaces methods of a library as soon as it is imported.

    Args:
        modules: The names of the modules that ``replace`` is called with.
    """

    def __init__(self, guard: HookGuard, fact: Fact, modules: Iterable[str]) -> None:
        self._guard, self._fact, self._patches = guard, fact, Patches()
        self._imports = ImportWatch(modules, self._on_import)

    def install(self) -> None:
        """Replace the methods, now or when the library is imported."""
        self._imports.install()

    def uninstall(self) -> None:
        """Restore them."""
        self._imports.uninstall()
        self._patches.restore()

    def results(self) -> dict[str, float]:
        """Return the checks; empty: the library shows nothing."""
        raise NotImplementedError

    def replace(self, name: str, module: Any) -> None:
        """Replace the methods of one of the modules."""
        raise NotImplementedError

    def _on_import(self, name: str, module: ModuleType) -> None:
        self._guard.run(self.replace, name, module)
