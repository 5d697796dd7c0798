"""Examples that TRL leaves out of a data set, since nothing is left to learn from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from leadline.frameworks.torch.diagnose.library_check import LibraryCheck
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.instrumentation.guard import Fact
from leadline.records.names import DROPPED_EXAMPLES

_MODULE: Final = "datasets.arrow_dataset"
_TRAINERS: Final = "trl.trainer."


class DroppedExamples(LibraryCheck):
    """Counts what trainers of TRL filter out of data sets, before they train on them."""

    def __init__(self, guard: HookGuard, fact: Fact) -> None:
        super().__init__(guard, fact, [_MODULE])
        self._counts = (0, 0)
        """The examples that were left out, and all of them, of the data set that lost the largest number."""

    def results(self) -> dict[str, float]:
        """Return the checks; empty: no trainer has left anything out."""
        if not self._counts[0]:
            return {}
        return {f"TRL/{check}": float(count) for check, count in zip(DROPPED_EXAMPLES, self._counts, strict=True)}

    def replace(self, name: str, module: Any) -> None:
        self._patches.replace(module.Dataset, "filter", self._make_filter, is_optional=True)

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
