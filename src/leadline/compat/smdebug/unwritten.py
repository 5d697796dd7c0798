"""Runs that hooks of this process are writing: a trial of one shows everything that was saved before it was opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

_flushes: Final[dict[str, Callable[[], object]]] = {}


def register(run: str, flush: Callable[[], object]) -> None:
    """Call ``flush`` before a trial reads the run."""
    _flushes[os.path.realpath(run)] = flush


def unregister(run: str) -> None:
    """Forget a run: nothing more is written there."""
    _flushes.pop(os.path.realpath(run), None)


def flush(path: str) -> None:
    """Write what a hook of this process has saved into the run at a path, if one has."""
    known = _flushes.get(os.path.realpath(path))
    if known is not None:
        known()
