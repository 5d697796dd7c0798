"""Examples that TRL leaves out of a data set, since nothing is left to learn from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.import_watch import ImportWatch
from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.instrumentation.guard import Fact
from leadline.records.names import DROPPED_EXAMPLES

_MODULE: Final = "datasets.arrow_dataset"
_TRAINERS: Final = "trl.trainer."


class DroppedExamples:
    """Counts what trainers of TRL filter out of data sets, before they train on them."""

    def __init__(self, guard: HookGuard, fact: Fact) -> None:
        self._guard, self._fact, self._patches = guard, fact, Patches()
        self._imports = ImportWatch([_MODULE], self._on_import)
        self._counts = (0, 0)
        """The examples that were left out, and all of them, of the data set that lost the largest number."""

    def install(self) -> None:
        """Replace the method that filters a data set, as soon as the library is imported."""
        self._imports.install()

    def uninstall(self) -> None:
        """Restore it."""
        self._imports.uninstall()
        self._patches.restore()

    def results(self) -> dict[str, float]:
        """Return the checks; empty: no trainer has left anything out."""
        if not self._counts[0]:
            return {}
        return {f"TRL/{check}": float(count) for check, count in zip(DROPPED_EXAMPLES, self._counts, strict=True)}

    def _on_import(self, name: str, module: ModuleType) -> None:
        self._guard.run(self._patches.replace, module.Dataset, "filter", self._make_filter, is_optional=True)

    def _make_filter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, note = self._guard, self._fact.call

        def filter(dataset: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(dataset, *args, **kwargs)
            if str(sys._getframe(1).f_globals.get("__name__")).startswith(_TRAINERS):
                guard.run(note, self._note, dataset, result)
            return result

        return filter

    def _note(self, before: Any, after: Any) -> None:
        self._counts = max(self._counts, (len(before) - len(after), len(before)))
