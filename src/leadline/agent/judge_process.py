"""Keeping the judge running; without it the training goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final

from leadline.agent.signals import SignalGate, spawn

_RESTARTS: Final = 3
_BACK_OFF_SECONDS: Final = 1.0

Tell = Callable[[str], None]


def judge_command(run: str) -> list[str] | None:
    """How the judge of a run is started; None where there is none."""
    if find_spec("leadline.judge") is None:
        return None
    return [sys.executable, "-m", "leadline.judge", run, "--follow"]


class JudgeProcess:
    """The judge's process: started before the job, and again a few times when it dies too early."""

    def __init__(
        self,
        command: list[str] | None,
        environment: Mapping[str, str],
        gate: SignalGate,
        *,
        tell: Tell,
        has_completed: Callable[[], bool],
    ) -> None:
        self.pid: int | None = None
        self.sessions: set[int] = set()
        """Of all judges that were started: what lives there is no part of the job."""
        self._command, self._gate, self._tell, self._has_completed = command, gate, tell, has_completed
        self._environment = dict(environment) | {"LEADLINE_DISABLED": "1"}
        self._starts = 0
        self._next_start: float | None = None
        self._has_told = self._is_retired = False

    @property
    def is_over(self) -> bool:
        """Whether it neither runs nor will."""
        return self.pid is None and self._next_start is None

    def start(self) -> None:
        """Start it."""
        self._next_start = None
        if self._command is None:
            self._complain("there is no judge: nothing is judged")
            return
        self._starts += 1
        try:
            # a session of its own, so that Ctrl-C does not reach it before it has judged the end
            self.pid = spawn(self._command, self._environment, self._gate, is_quiet=True, has_own_session=True)
        except OSError as error:
            self._complain(f"the judge cannot be started: {error.strerror}")
        else:
            self.sessions.add(self.pid)

    def on_exit(self, code: int, now: float) -> None:
        """Its process has ended."""
        self.pid = None
        if self._has_completed() or self._is_retired:
            return
        how = f"status {code}" if code >= 0 else f"signal {-code}"
        if self._starts > _RESTARTS:
            self._complain(f"the judge ended again ({how}); what comes is not judged", is_final=True)
            return
        self._complain(f"the judge ended early ({how}) and is started again")
        self._next_start = now + _BACK_OFF_SECONDS * 2 ** (self._starts - 1)

    def poll(self, now: float, *, is_urgent: bool = False) -> None:
        """Start it again when its time has come."""
        if self._next_start is not None and (is_urgent or now >= self._next_start):
            self.start()

    def retire(self) -> None:
        """Start it no more."""
        self._next_start = None
        self._is_retired = True

    def send(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.pid is not None:
            os.kill(self.pid, number)  # our child: nobody else can bear its pid before we reap it

    def _complain(self, text: str, *, is_final: bool = False) -> None:
        if not self._has_told or is_final:
            self._has_told = True
            self._tell(f"{text}. The training goes on; judge it afterwards with: leadline judge")
