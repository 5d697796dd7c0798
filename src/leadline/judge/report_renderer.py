"""The reports that rules keep up to date: rendered by processes of their own, which the judge never waits for."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Final

FIRST_SECONDS: Final = 10.0
"""When a report is rendered first: there is something to see by then."""
EVERY_SECONDS: Final = 30.0
"""How long at least between the beginnings of two renderings of a report."""
SHARE: Final = 10.0
"""A rendering that took so long is left alone so many times as long: at most a tenth of one processor goes into it."""
LONGEST_SECONDS: Final = 600.0
"""A rendering that takes longer is ended."""
_LAST_WORDS: Final = 300


@dataclass(slots=True)
class _Rendering:
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    """A file without a name: a pipe would have to be emptied."""
    began: float


def printing(run: str, product: str) -> list[str]:
    """The command that renders a report of a run."""
    return [sys.executable, "-m", "leadline.judge.render_report", run, product]


class ReportRenderer:
    """Keeps one report of a run up to date.

    A process renders it at low priority and ends with the judge; a report is replaced when a new one is whole. What
    goes wrong there is told once and harms nobody.

    Args:
        name: What the report is called: ``profiling report``.
        command: Renders it, and says on standard error why it could not.
        say: Told in a line why a report could not be rendered.
        clock: Seconds that only grow.

    Attributes:
        is_wanted: Something was judged that the report does not have yet.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = list(command)
        self.name, self._say, self._clock = name, say, clock
        self._rendering: _Rendering | None = None
        self._due_at = clock() + FIRST_SECONDS
        self.is_wanted = self._has_told = False

    @property
    def is_busy(self) -> bool:
        """Whether a rendering is under way."""
        return self._rendering is not None

    def want(self) -> None:
        """Have what was judged meanwhile told by the report."""
        self.is_wanted = True

    def turn(self, *, is_last: bool = False) -> None:
        """See to what is under way, and begin anew where it is wanted and time.

        Args:
            is_last: Nothing more is judged: begin at once.
        """
        now = self._clock()
        self._look_after(now)
        if self._rendering is None and self.is_wanted and (is_last or now >= self._due_at):
            self._begin(now)

    def close(self) -> None:
        """End what is under way."""
        if self._rendering is not None:
            self._rendering.process.kill()
            self._collect(self._rendering)

    def _begin(self, now: float) -> None:
        self.is_wanted, self._due_at = False, now + EVERY_SECONDS
        try:
            self._rendering = self._started(now)
        except OSError as error:
            self._tell(error.strerror or str(error))

    def _started(self, now: float) -> _Rendering:
        """A rendering that has begun.

        Raises:
            OSError: It could not.
        """
        said = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the process writes into it
        try:
            process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        except OSError:
            said.close()
            raise
        return _Rendering(process, said, now)

    def _look_after(self, now: float) -> None:
        rendering = self._rendering
        if rendering is None:
            return
        if rendering.process.poll() is None:
            if now - rendering.began <= LONGEST_SECONDS:
                return
            rendering.process.kill()
        self._due_at = now + max(EVERY_SECONDS, SHARE * (now - rendering.began))
        self._collect(rendering)

    def _collect(self, rendering: _Rendering) -> None:
        self._rendering = None
        with rendering.said as file:
            if rendering.process.wait() > 0:
                file.seek(0)
                lines = file.read().decode(errors="replace").strip().splitlines()
                self._tell(lines[-1].removeprefix("leadline: ")[:_LAST_WORDS] if lines else "it did not say why")

    def _tell(self, why: str) -> None:
        if not self._has_told:
            self._has_told = True
            self._say(f"the {self.name} could not be made: {why}")
