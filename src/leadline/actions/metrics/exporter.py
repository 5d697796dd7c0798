"""Where gauges go: what each kind of place promises."""

from __future__ import annotations

from typing import Protocol


class MetricExporter(Protocol):
    """One place that gauges are published at, made for one board.

    **Fails in two ways**
    ``publish`` raises ``RetryLaterError`` where a retry may succeed, ``RejectedError`` where none will, nothing else.

    **Ends**
    ``publish`` comes back within its limit, and ``close`` too; no thread of it keeps the process alive.
    """

    is_pushed: bool
    """Whether the values go out only when they are sent, and so must be sent again now and then."""

    def publish(self) -> str:
        """Make the board's values known; what was done, in one line."""

    def close(self) -> None:
        """Let go of what is held."""
