"""MLflow: ``log_metric`` and ``log_metrics``, where the fluent functions and the client come together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.replacement import Logger, Make, Replacement
from leadline.frameworks.loggers.tap import Read, Tap

_OWN_COLLECTING: Final = "mlflow.utils.autologging_utils"
"""Here the library gathers what it measures itself and what it takes from others, and sends it in later steps."""
_DEPTH: Final = 4


def _replacements(library: ModuleType, tap: Tap) -> Iterable[Replacement]:
    yield Replacement(library.MlflowClient, "log_metric", _of_the_script(tap, _metric))
    yield Replacement(library.MlflowClient, "log_batch", _of_the_script(tap, _batch))


def _of_the_script(tap: Tap, read: Read) -> Make:
    """Hear only what was logged for the script's sake."""
    listen = tap.after(read)

    def make(original: Any) -> Any:
        heard = listen(original)

        def log(*args: Any, **kwargs: Any) -> Any:
            return (original if _is_own_collecting() else heard)(*args, **kwargs)

        return log

    return make


def _is_own_collecting() -> bool:
    frame = sys._getframe(2)
    for _ in range(_DEPTH):
        if frame.f_globals.get("__name__", "").startswith(_OWN_COLLECTING):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def _metric(client: object, run_id: str, key: str, value: Any, *rest: object, **others: object) -> dict[str, Any]:
    return {key: value}


def _batch(client: object, run_id: str, metrics: Sequence[Any] = (), *rest: object, **others: object) -> dict[str, Any]:
    return {each.key: each.value for each in metrics} if isinstance(metrics, (list, tuple)) else {}


MLFLOW: Final = Logger("mlflow", {"mlflow.tracking.client": _replacements})
