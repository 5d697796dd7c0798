"""The inbox of control requests, which returns every request once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from leadline.agent.progress import WatchedFile
from leadline.records.request import Request
from leadline.store import layout
from leadline.store.control import read_requests

_CLOCK_TICK_SECONDS: Final = 0.2


class ControlInbox:
    """Reads the control requests of a run when their folder has changed.

    Args:
        complain: Called with what cannot be read.
    """

    def __init__(
        self, run: str, complain: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._complain, self._clock = run, complain, clock
        self._file = WatchedFile(os.path.join(run, layout.CONTROL))
        self._known: set[str] = set()
        self._check_again_at: float | None = None

    def take(self) -> list[Request]:
        """Return the requests that arrived since the last call, oldest first."""
        if not self._may_have_requests():
            return []
        try:
            requests = read_requests(self._run, on_invalid=self._complain, known=self._known)
        except OSError as error:
            self._complain(str(error))
            return []
        self._known.update(request.id for request in requests)
        return requests

    def _may_have_requests(self) -> bool:
        """Return whether a request may have arrived.

        After a change the folder is read twice: a second change within one tick of the file system's clock leaves
        the modification time as it is.
        """
        now = self._clock()
        if self._file.has_changed():
            self._check_again_at = now + _CLOCK_TICK_SECONDS
            return True
        if self._check_again_at is not None and now >= self._check_again_at:
            self._check_again_at = None
            return True
        return False
