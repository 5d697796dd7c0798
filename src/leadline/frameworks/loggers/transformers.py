"""Transformers: ``Trainer.log``, as it goes into ``trainer.state.log_history``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.interceptor import Interceptor
from leadline.frameworks.loggers.patches import Logger, Replacement


def _replacements(library: ModuleType, tap: Interceptor) -> Iterable[Replacement]:
    yield Replacement(library.Trainer, "log", tap.around(_passed_on, _history))


def _passed_on(trainer: object, logs: Mapping[str, Any], *rest: object, **others: object) -> Mapping[str, Any]:
    """Its callbacks give the same numbers to TensorBoard and others, under names of their own."""
    return logs


def _history(trainer: Any, logs: Mapping[str, Any], *rest: object, **others: object) -> dict[str, Any]:
    return {name: value for name, value in trainer.state.log_history[-1].items() if name != "step"}


TRANSFORMERS: Final = Logger("transformers", {"transformers.trainer": _replacements})
