"""Flushes runs that this process is writing, so that a trial opened here sees all saved data."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

_flushes: Final[dict[str, Callable[[], object]]] = {}
_local: Final[dict[str, str]] = {}
"""The runs that are being uploaded, by their URIs."""


def register(run: str, flush: Callable[[], object], uri: str = "") -> None:
    """Call ``flush`` before a trial reads the run, which a trial that is opened by the URI reads from here, too."""
    _flushes[os.path.realpath(run)] = flush
    if uri:
        _local[uri] = run


def unregister(run: str) -> None:
    """Forget a run: nothing more is written there."""
    _flushes.pop(os.path.realpath(run), None)
    for uri in [uri for uri, local in _local.items() if local == run]:
        del _local[uri]


def flush(path: str) -> str:
    """Write what a hook of this process has saved into the run at a path or URI, if one has; return its path."""
    path = _local.get(path.rstrip("/"), path)
    known = _flushes.get(os.path.realpath(path))
    if known is not None:
        known()
    return path
