"""Leadline watches machine-learning training from inside; importing it loads nothing that a training would feel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leadline.records.version import __version__

__all__ = ["Hook", "TrainingStopped", "__version__", "log", "mode", "open_run", "watch"]

if TYPE_CHECKING:
    from leadline.errors import TrainingStopped
    from leadline.hook import Hook
    from leadline.reader.run import open_run
    from leadline.training.session.session import log, mode
    from leadline.training.session.watch import watch

_HOMES = {
    "Hook": "leadline.hook",
    "TrainingStopped": "leadline.errors",
    "open_run": "leadline.reader.run",
    "log": "leadline.training.session.session",
    "mode": "leadline.training.session.session",
    "watch": "leadline.training.session.watch",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'leadline' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
