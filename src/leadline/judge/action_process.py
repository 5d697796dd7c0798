"""A courier as the judge sees it: a process that is started, asked, heard, and killed when it takes too long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any, Final, Literal

from leadline.judge import json_pipe
from leadline.store.documents import encode

START_SECONDS: Final = 60.0
"""That it may take to import and make its action, and to read what a notice shall bear."""
CLOSE_SECONDS: Final = 5.0

State = Literal["off", "starting", "idle", "preparing", "busy", "closing"]


class ActionProcess:
    """One courier.

    Args:
        order: What it is told first: the action.
        timeout: Seconds that one try may take.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self.state: State = "off"
        self.timeout = START_SECONDS
        self._order = order
        self._outgoing = b""
        self._since = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def descriptor(self) -> int | None:
        """What becomes readable when it answers; None while it does not run."""
        return None if self._process is None else self._inbox.descriptor

    def start(self) -> None:
        """Start the process and tell it which action it does.

        Raises:
            OSError: It cannot be started.
        """
        command_read, command_write = os.pipe()
        answer_read, answer_write = os.pipe()
        passed = (command_read, answer_write)
        try:
            # nothing that an action prints may reach a terminal or log: it can hold what is secret
            self._process = subprocess.Popen(
                [sys.executable, "-m", "leadline.judge.action_worker", *map(str, passed)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=passed,
            )
        except OSError:
            os.close(command_write)
            os.close(answer_read)
            raise
        finally:
            os.close(command_read)
            os.close(answer_write)
        os.set_blocking(command_write, False)
        self._command, self._inbox, self._outgoing = command_write, json_pipe.MessageReader(answer_read), b""
        self._send(self._order, "starting")

    def ask(self, message: dict[str, Any]) -> None:
        """Hand it a notice."""
        self._send(message, "preparing")

    def retire(self) -> None:
        """No notice comes any more: it lets go of what it holds, and ends."""
        if self.state == "idle":
            self._turn_to("closing")
            os.close(self._command)
            self._command = -1
        elif self.state not in ("off", "closing"):
            self.end()

    def receive(self) -> list[dict[str, Any]]:
        """Its answers, when it has some; with the last of a process that has ended it is off."""
        answers = self._inbox.receive()
        for answer in answers:
            self._turn_to("busy" if answer.get("begun") else "idle" if self.state != "closing" else "closing")
        return answers

    @property
    def has_ended(self) -> bool:
        """Whether its process closed the line."""
        return self._process is not None and self._inbox.is_closed

    def how_it_ended(self) -> str:
        """In words, once it has."""
        assert self._process is not None
        status = self._process.wait()
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}"
        return f"its process ended with status {status}"

    def flush(self) -> None:
        """Write what the pipe did not take before: a courier that does not read holds nobody up."""
        while self._outgoing:
            try:
                self._outgoing = self._outgoing[os.write(self._command, self._outgoing) :]
            except (BlockingIOError, BrokenPipeError):  # it is full, or will be found to have ended
                return

    def is_late(self, now: float) -> bool:
        """Whether it takes longer than it may."""
        limits = {"starting": START_SECONDS, "preparing": START_SECONDS, "busy": self.timeout, "closing": CLOSE_SECONDS}
        return self.state in limits and now - self._since > limits[self.state]

    def end(self) -> None:
        """End it at once."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        if self._command >= 0:
            os.close(self._command)
        os.close(self._inbox.descriptor)
        self._process, self._outgoing, self.state = None, b"", "off"

    def _send(self, message: dict[str, Any], state: State) -> None:
        self._turn_to(state)
        self._outgoing += encode(message) + b"\n"
        self.flush()

    def _turn_to(self, state: State) -> None:
        self.state, self._since = state, time.monotonic()
