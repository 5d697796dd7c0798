"""Delivery of messages to other systems in a thread, in order and with retries."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from leadline.actions.action import RejectedError, RetryLaterError
from leadline.errors import LeadlineError

logger: Final = logging.getLogger(__name__)
_ATTEMPTS: Final = 4
_MAX_WAITING: Final = 1000


class Outbox:
    """Sends one message after the other.

    **Never blocks** - messages wait in memory, at most 1,000; more are dropped, with a warning. One that was not
    accepted after 4 attempts is dropped as well.
    """

    def __init__(self, name: str) -> None:
        self._waiting: queue.Queue[tuple[str, Callable[[], object]] | None] = queue.Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._deliver, name=name, daemon=True)
        self._thread.start()

    def add(self, what: str, send: Callable[[], object]) -> None:
        """Append a message.

        Args:
            what: What it is, for warnings: ``an event of train-1``.
            send: Sends it; raises ``RejectedError`` or ``RetryLaterError`` if it was not accepted.
        """
        try:
            self._waiting.put_nowait((what, send))
        except queue.Full:
            logger.warning("%s was dropped: %d are waiting", what, _MAX_WAITING)

    def close(self) -> None:
        """Send what waits, and end."""
        self._waiting.put(None)
        self._thread.join()

    def _deliver(self) -> None:
        while (entry := self._waiting.get()) is not None:
            what, send = entry
            for attempt in range(_ATTEMPTS):
                try:
                    send()
                    break
                except (RejectedError, LeadlineError) as error:
                    logger.warning("%s was refused: %s", what, error)
                    break
                except RetryLaterError as error:
                    if attempt == _ATTEMPTS - 1:
                        logger.warning("%s was dropped: %s", what, error)
                    else:
                        time.sleep(2.0**attempt)
