"""Removal of the oldest raw tensors while a run with a bound (``--max-disk``) grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leadline.store.disk_limit import read_disk_limit, remove_excess

_CHECK_SECONDS: Final = 5.0

Warn = Callable[[str], None]


class RawTensorRemoval:
    """Keeps a run directory within its bound, if it has one.

    **Never affects the training** - a file that cannot be removed is reported once, and the next check tries again.
    """

    def __init__(self, run: str, *, warn: Warn) -> None:
        self._run, self._warn = run, warn
        self._max_bytes = read_disk_limit(run).max_bytes
        self._check_at = 0.0
        self._has_warned = False

    def poll(self, now: float) -> None:
        """Keep the run within its bound, checked every 5 s."""
        if self._max_bytes is not None and now >= self._check_at:
            self._check_at = now + _CHECK_SECONDS
            self._remove()

    def finish(self) -> None:
        """Keep the run within its bound when nothing is written any more, and report what was removed."""
        if self._max_bytes is None:
            return
        self._remove()
        removed = read_disk_limit(self._run).describe()
        if removed:
            self._warn(removed)

    def _remove(self) -> None:
        assert self._max_bytes is not None
        try:
            remove_excess(self._run, self._max_bytes)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                self._warn(f"raw tensors cannot be removed (--max-disk): {error.strerror}")
