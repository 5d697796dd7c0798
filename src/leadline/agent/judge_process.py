"""The process of the judge: its start, and its restart after a crash."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final

from leadline.agent.signals import SignalGate, spawn

_RESTARTS: Final = 3
_BACK_OFF_SECONDS: Final = 1.0

Warn = Callable[[str], None]


def judge_command(run: str) -> list[str] | None:
    """Return the command that starts the judge of a run; None where the judge is not installed."""
    if find_spec("leadline.judge") is None:
        return None
    return [sys.executable, "-m", "leadline.judge", run, "--follow"]


class JudgeProcess:
    """Starts the judge before the job, and restarts it up to three times if it exits early.

    **Never affects the training** - without a judge the training continues, and the user is told how to evaluate
    the rules afterwards.
    """

    def __init__(
        self,
        command: list[str] | None,
        environment: Mapping[str, str],
        gate: SignalGate,
        *,
        warn: Warn,
        has_completed: Callable[[], bool],
    ) -> None:
        self.pid: int | None = None
        self.sessions: set[int] = set()
        """The sessions of all judges that were started; processes in them are not part of the job."""
        self._command, self._gate, self._warn, self._has_completed = command, gate, warn, has_completed
        self._environment = dict(environment) | {"LEADLINE_DISABLED": "1"}
        self._starts = 0
        self._next_start: float | None = None
        self._has_warned = self._is_retired = False

    @property
    def is_over(self) -> bool:
        """Whether it is not running and will not be started again."""
        return self.pid is None and self._next_start is None

    def start(self) -> None:
        """Start the judge."""
        self._next_start = None
        if self._command is None:
            self._report("the judge is not installed: rules are not evaluated")
            return
        self._starts += 1
        try:
            # a session of its own, so that Ctrl-C does not reach it before it has evaluated the end of the run
            self.pid = spawn(self._command, self._environment, self._gate, is_background=True, has_own_session=True)
        except OSError as error:
            self._report(f"cannot start the judge: {error.strerror}")
        else:
            self.sessions.add(self.pid)

    def on_exit(self, code: int, now: float) -> None:
        """Schedule a restart if the judge exited before it was done."""
        self.pid = None
        if self._has_completed() or self._is_retired:
            return
        how = f"status {code}" if code >= 0 else f"signal {-code}"
        if self._starts > _RESTARTS:
            self._report(f"the judge failed again ({how}) and is not restarted", is_final=True)
            return
        self._report(f"the judge exited unexpectedly ({how}); restarting it")
        self._next_start = now + _BACK_OFF_SECONDS * 2 ** (self._starts - 1)

    def poll(self, now: float, *, is_urgent: bool = False) -> None:
        """Restart the judge when the back-off time has passed."""
        if self._next_start is not None and (is_urgent or now >= self._next_start):
            self.start()

    def retire(self) -> None:
        """Never start the judge again."""
        self._next_start = None
        self._is_retired = True

    def send(self, number: int) -> None:
        """Send a signal to the judge, if it is running."""
        if self.pid is not None:
            os.kill(self.pid, number)  # our child: its pid cannot be reused before we reap it

    def _report(self, text: str, *, is_final: bool = False) -> None:
        if not self._has_warned or is_final:
            self._has_warned = True
            self._warn(f"{text}. Training continues; evaluate the rules afterwards with: leadline judge")
