"""The control requests of a run as they come, each once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from leadline.agent.progress import Follower
from leadline.records.request import Request
from leadline.store import layout
from leadline.store.control import read_requests

_CLOCK_TICK_SECONDS: Final = 0.2


class ControlInbox:
    """What somebody asks of the job, read when the folder changed.

    Args:
        complain: Told what cannot be read.
    """

    def __init__(
        self, run: str, complain: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._complain, self._clock = run, complain, clock
        self._file = Follower(os.path.join(run, layout.CONTROL))
        self._known: set[str] = set()
        self._look_again_at: float | None = None

    def take(self) -> list[Request]:
        """Those that came since the last time, the oldest first."""
        if not self._has_news():
            return []
        try:
            requests = read_requests(self._run, complain=self._complain, known=self._known)
        except OSError as error:
            self._complain(str(error))
            return []
        self._known.update(each.id for each in requests)
        return requests

    def _has_news(self) -> bool:
        """Whether something may have come; a second change within a tick of the disk's clock looks like none."""
        now = self._clock()
        if self._file.has_changed():
            self._look_again_at = now + _CLOCK_TICK_SECONDS
            return True
        if self._look_again_at is not None and now >= self._look_again_at:
            self._look_again_at = None
            return True
        return False
