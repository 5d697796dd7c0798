"""The reports that rules keep up to date, rendered in separate processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from leadline.process.child import Child
from leadline.process.interpreter import own_command, own_environment
from leadline.process.stall import StallClock

FIRST_AFTER_SECONDS: Final = 10.0
"""When a report is rendered for the first time: there is something to see by then."""
MIN_INTERVAL_SECONDS: Final = 30.0
"""The minimum interval between the starts of two renderings of a report."""
SHARE: Final = 10.0
"""After a rendering follows a pause of so many times its duration: at most a tenth of one processor is used."""
MAX_SECONDS: Final = 600.0
"""The time limit of a rendering."""


def render_command(run: str, product: str) -> list[str]:
    """Return the command that renders a report of a run."""
    return own_command("leadline.reports", run, product)


class ReportRenderer:
    """Keeps one report of a run up to date.

    **Never waits** - a process renders the report at low priority and ends with the judge. The old report is
    replaced when the new one is complete. A failure is reported once and affects nothing else.

    Args:
        name: The name of the report: ``profiling report``.
        command: Renders the report, with errors on standard error.
        warn: Called with the reason if a report could not be rendered.
        clock: A monotonic clock in seconds.

    Attributes:
        is_outdated: Whether something was evaluated that the report does not contain yet.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = list(command)
        self.name, self._warn, self._clock = name, warn, clock
        self._child: Child | None = None
        self._began = 0.0
        self._next_at = clock() + FIRST_AFTER_SECONDS
        self.is_outdated = self._has_warned = False
        self._clock_of_child = StallClock(0)

    @property
    def is_busy(self) -> bool:
        """Whether a rendering is in progress."""
        return self._child is not None

    def begin_last(self) -> None:
        """Have the report rendered once more: nothing more is evaluated. A rendering in progress ends before."""
        self.mark_outdated()
        self._clock_of_child.reset()

    def is_awaited(self, seconds: float) -> bool:
        """Return whether the last rendering is not complete, and has not taken so long yet.

        What it waited for a processor does not count.
        """
        is_late = self._child is not None and self._clock_of_child.used_seconds > seconds
        return (self.is_busy or self.is_outdated) and not is_late

    def give_up(self) -> None:
        """Report that the last rendering is not complete."""
        if self.is_busy or self.is_outdated:
            self._report_failure("it was not complete in time; leadline report renders one of the whole run")

    def mark_outdated(self) -> None:
        """Have the report rendered again."""
        self.is_outdated = True

    def advance(self, *, is_last: bool = False) -> None:
        """Supervise the running process, and start the next rendering if it is needed and due.

        Args:
            is_last: Whether nothing more will be evaluated: start at once.
        """
        now = self._clock()
        self._supervise(now)
        if self._child is None and self.is_outdated and (is_last or now >= self._next_at):
            self._begin(now)

    def close(self) -> None:
        """Kill the running process."""
        if self._child is not None:
            self._child.kill()
            self._collect(self._child)

    def _begin(self, now: float) -> None:
        self.is_outdated, self._began, self._next_at = False, now, now + MIN_INTERVAL_SECONDS
        try:
            self._child = Child(self._command, own_environment(), keeps_errors=True)
            self._child.deadline = now + MAX_SECONDS
            self._clock_of_child = StallClock(self._child.pid)
        except OSError as error:
            self._report_failure(error.strerror or str(error))

    def _supervise(self, now: float) -> None:
        child = self._child
        if child is not None:
            self._clock_of_child.look(now)
        if child is None or (child.poll() is None and not child.is_overdue(now)):
            return
        child.kill()
        self._next_at = now + max(MIN_INTERVAL_SECONDS, SHARE * (now - self._began))
        self._collect(child)

    def _collect(self, child: Child) -> None:
        self._child = None
        if child.wait() > 0:
            self._report_failure(child.error_line)
        child.close()

    def _report_failure(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._warn(f"could not render the {self.name}: {why}")
