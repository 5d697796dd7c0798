"""Leadline: a debugger for machine-learning training. Importing it loads nothing that slows a training down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leadline.records.version import __version__

__all__ = ["Hook", "TrainingStopped", "__version__", "log", "mode", "open_run", "open_trial", "watch"]

if TYPE_CHECKING:
    from leadline.errors import TrainingStopped
    from leadline.hook import Hook
    from leadline.reader.run import open_run, open_trial
    from leadline.training.session.api import log, mode
    from leadline.training.session.watch import watch

_MODULES = {
    "Hook": "leadline.hook",
    "TrainingStopped": "leadline.errors",
    "open_run": "leadline.reader.run",
    "open_trial": "leadline.reader.run",
    "log": "leadline.training.session.api",
    "mode": "leadline.training.session.api",
    "watch": "leadline.training.session.watch",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'leadline' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
