"""Transformers: ``Trainer.log``, as stored in ``trainer.state.log_history``."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary


def _patches(library: ModuleType, interceptor: Interceptor) -> None:
    interceptor.replace(library.Trainer, "log", interceptor.around(_forwarded, _history))


def _forwarded(trainer: object, logs: Mapping[str, Any], *rest: object, **others: object) -> Mapping[str, Any]:
    """Return the values that the trainer's callbacks forward to TensorBoard and others under other names."""
    return logs


def _history(trainer: Any, logs: Mapping[str, Any], *rest: object, **others: object) -> dict[str, Any]:
    return {name: value for name, value in trainer.state.log_history[-1].items() if name != "step"}


TRANSFORMERS: Final = LoggingLibrary("transformers", {"transformers.trainer": _patches})
