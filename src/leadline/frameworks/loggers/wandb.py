"""Weights & Biases: ``wandb.log`` and ``Run.log``, where both come together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.replacement import Logger, Replacement
from leadline.frameworks.loggers.tap import Tap


def _replacements(library: ModuleType, tap: Tap) -> Iterable[Replacement]:
    # `wandb.log` is a bound method that was taken when the run began; what it calls is looked up at every call.
    name = "_log" if hasattr(library.Run, "_log") else "log"
    yield Replacement(library.Run, name, tap.after(_history))


def _history(run: object, data: Mapping[str, Any], *rest: object, **others: object) -> dict[str, Any]:
    return dict(_flat(data, ""))


def _flat(data: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    """Nested dictionaries as the library itself names them: ``outer.inner``."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


WANDB: Final = Logger("wandb", {"wandb.sdk.wandb_run": _replacements})
