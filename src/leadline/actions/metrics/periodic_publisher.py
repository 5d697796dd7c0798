"""Sending gauges again while nothing new comes, so that alarms have points."""

from __future__ import annotations

import logging
import threading

from leadline.actions.action import RejectedError, RetryLaterError
from leadline.actions.metrics.exporter import MetricExporter

_LOG = logging.getLogger(__name__)


class PeriodicPublisher:
    """Publishes at an outlet, on demand and every so many seconds, never twice at once.

    Args:
        seconds: Between two sendings, > 0.
        patience_seconds: How long ``close`` waits for one that is under way.
    """

    def __init__(self, outlet: MetricExporter, seconds: float, patience_seconds: float) -> None:
        self._outlet, self._seconds, self._patience_seconds = outlet, seconds, patience_seconds
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="leadline-metrics", daemon=True)
        if outlet.is_pushed:
            self._thread.start()

    def publish(self) -> str:
        """Publish now; what was done, in one line.

        Raises:
            RetryLaterError: It failed; a later try may succeed.
            RejectedError: It failed for good.
        """
        with self._lock:
            return self._outlet.publish()

    def close(self) -> None:
        """Publish no more."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(self._patience_seconds)
        self._outlet.close()

    def _repeat(self) -> None:
        while not self._is_over.wait(self._seconds):
            try:
                self.publish()
            except (RetryLaterError, RejectedError, OSError) as error:  # the next notice meets the same, and tells it
                _LOG.info("the metrics could not be sent again: %s", error)
