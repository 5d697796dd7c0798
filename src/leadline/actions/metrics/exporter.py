"""The interface of metric exporters."""

from __future__ import annotations

from typing import Protocol


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
