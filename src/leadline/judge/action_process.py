"""The process of an action worker as the judge sees it: started, asked, and killed when it takes too long."""

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
"""The time limit for importing and constructing the action, and for preparing a notification."""
CLOSE_SECONDS: Final = 5.0

State = Literal["off", "starting", "idle", "preparing", "busy", "closing"]


class ActionProcess:
    """One action worker.

    Args:
        setup: The first message to the worker: the action and its parameters.

    Attributes:
        timeout: The time limit in seconds of one attempt.
    """

    def __init__(self, setup: dict[str, Any]) -> None:
        self.state: State = "off"
        self.timeout = START_SECONDS
        self._setup = setup
        self._outgoing = b""
        self._since = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def descriptor(self) -> int | None:
        """The descriptor that becomes readable when the worker answers; None while it is not running."""
        return None if self._process is None else self._inbox.descriptor

    def start(self) -> None:
        """Start the process and send it the action.

        Raises:
            OSError: It cannot be started.
        """
        command_read, command_write = os.pipe()
        answer_read, answer_write = os.pipe()
        passed = (command_read, answer_write)
        try:
            # nothing that an action prints may reach a terminal or log: it can contain secrets
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
        self._send(self._setup, "starting")

    def ask(self, message: dict[str, Any]) -> None:
        """Send it a notification."""
        self._send(message, "preparing")

    def retire(self) -> None:
        """Let an idle worker release its resources and exit; kill one that is busy."""
        if self.state == "idle":
            self._set_state("closing")
            os.close(self._command)
            self._command = -1
        elif self.state not in ("off", "closing"):
            self.end()

    def receive(self) -> list[dict[str, Any]]:
        """Read its answers; called when the descriptor is readable."""
        answers = self._inbox.receive()
        for answer in answers:
            self._set_state("busy" if answer.get("begun") else "idle" if self.state != "closing" else "closing")
        return answers

    @property
    def has_ended(self) -> bool:
        """Whether the process closed its end of the pipe."""
        return self._process is not None and self._inbox.is_closed

    def describe_exit(self) -> str:
        """Return how the process ended."""
        assert self._process is not None
        status = self._process.wait()
        if status < 0:
            return f"its process was killed by {signal.Signals(-status).name}"
        return f"its process exited with status {status}"

    def flush(self) -> None:
        """Write what did not fit into the pipe before; never blocks on a worker that does not read."""
        while self._outgoing:
            try:
                self._outgoing = self._outgoing[os.write(self._command, self._outgoing) :]
            except (BlockingIOError, BrokenPipeError):  # the pipe is full, or the end of the worker is noticed later
                return

    def has_timed_out(self, now: float) -> bool:
        """Whether it exceeds its time limit."""
        limits = {"starting": START_SECONDS, "preparing": START_SECONDS, "busy": self.timeout, "closing": CLOSE_SECONDS}
        return self.state in limits and now - self._since > limits[self.state]

    def end(self) -> None:
        """Kill the process."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        if self._command >= 0:
            os.close(self._command)
        os.close(self._inbox.descriptor)
        self._process, self._outgoing, self.state = None, b"", "off"

    def _send(self, message: dict[str, Any], state: State) -> None:
        self._set_state(state)
        self._outgoing += encode(message) + b"\n"
        self.flush()

    def _set_state(self, state: State) -> None:
        self.state, self._since = state, time.monotonic()
