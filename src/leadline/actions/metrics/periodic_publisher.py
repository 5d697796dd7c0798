"""Periodic publication of unchanged gauges, so that alarms have data points."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from leadline.actions.action import RejectedError, RetryLaterError

_LOG = logging.getLogger(__name__)


class MetricExporter(Protocol):
    """An exporter for the gauges of one run.

    **Fails in two ways**
    ``publish`` raises ``RetryLaterError`` if a retry may succeed, ``RejectedError`` if not, and nothing else.

    **Ends**
    ``publish`` and ``close`` return within their time limits, and no thread keeps the process alive.
    """

    is_pushed: bool
    """Whether values are visible only after they were sent, so that they must be sent again periodically."""

    def publish(self) -> str:
        """Publish the current values, and return what was done in one line."""

    def close(self) -> None:
        """Release all resources."""


class PeriodicPublisher:
    """Publishes through an exporter, on demand and periodically, never twice at once.

    Args:
        seconds: The interval of publications, > 0.
        patience_seconds: How long ``close`` waits for a publication in progress.
    """

    def __init__(self, exporter: MetricExporter, seconds: float, patience_seconds: float) -> None:
        self._exporter, self._seconds, self._patience_seconds = exporter, seconds, patience_seconds
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="leadline-metrics", daemon=True)
        if exporter.is_pushed:
            self._thread.start()

    def publish(self) -> str:
        """Publish now, and return what was done in one line.

        Raises:
            RetryLaterError: It failed, and a retry may succeed.
            RejectedError: It failed for good.
        """
        with self._lock:
            return self._exporter.publish()

    def close(self) -> None:
        """Stop publishing."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(self._patience_seconds)
        self._exporter.close()

    def _repeat(self) -> None:
        while not self._is_over.wait(self._seconds):
            try:
                self.publish()
            except (RetryLaterError, RejectedError, OSError) as error:  # the next notification reports the same error
                _LOG.info("the metrics could not be sent again: %s", error)
