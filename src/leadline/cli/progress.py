"""A progress display on standard error for work on many runs."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from leadline.cli.console import complain

_REPORT_SECONDS: Final = 10.0
"""The interval between two lines without a terminal."""


class ProgressCounter:
    """A progress bar on a terminal, a line at intervals elsewhere; nothing for a single run.

    Args:
        total: The number of runs.
    """

    def __init__(self, total: int) -> None:
        self._total, self._done, self._fired = total, 0, 0
        self._reported_at = time.monotonic()
        console = Console(stderr=True)
        self._bar = _bar(console) if console.is_terminal and total > 1 else None

    def __enter__(self) -> ProgressCounter:
        if self._bar is not None:
            self._bar.start()
            self._bar.add_task("judging", total=self._total, fired=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def count(self, *, has_fired: bool) -> None:
        """Count one judged run."""
        self._done += 1
        self._fired += has_fired
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done, fired=self._fired)
        elif self._done < self._total and time.monotonic() - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = time.monotonic()
            complain(f"judged {self._done} of {self._total} runs, {self._fired} with findings")


def _bar(console: Console) -> Progress:
    fired = TextColumn("runs, {task.fields[fired]} with findings")
    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), fired, TimeElapsedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
