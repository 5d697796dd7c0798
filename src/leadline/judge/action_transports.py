"""The workers of actions as their queues see them: in a process of their own, or inside the judge."""

from __future__ import annotations

import time
from typing import Final, Literal, cast

from leadline.judge.action_worker import ActionWorker
from leadline.judge.worker_messages import ActionAnswer, ActionRequest, ActionSetup
from leadline.process.child import Child, describe_exit
from leadline.process.interpreter import own_command, own_environment

START_SECONDS: Final = 60.0
"""The time limit for importing and constructing the action, and for preparing a notification."""
CLOSE_SECONDS: Final = 5.0

State = Literal["off", "starting", "idle", "preparing", "busy", "closing"]


class InlineAction:
    """An action worker inside the judge, for actions that only write a control request; it answers at once.

    Args:
        setup: The action and its parameters.
    """

    descriptor = None

    def __init__(self, setup: ActionSetup) -> None:
        self.state: State = "off"
        self.timeout = START_SECONDS
        self._setup = setup
        self._answers: list[ActionAnswer] = []

    def start(self) -> None:
        self._worker = ActionWorker(self._setup, is_inline=True)
        self._answers, self.state = [self._worker.setup_result], "idle"

    def ask(self, message: ActionRequest) -> None:
        self._worker.prepare(message)
        self._answers.append(self._worker.deliver())

    def receive(self) -> list[ActionAnswer]:
        answers, self._answers = self._answers, []
        return answers

    def failure(self, now: float) -> str:
        return ""

    def retire(self) -> None: ...

    def end(self) -> None:
        self.state = "off"


class ActionProcess:
    """An action worker in a process of its own, which is killed when it takes too long.

    Args:
        setup: The first message to the worker: the action and its parameters.
    """

    def __init__(self, setup: ActionSetup) -> None:
        self.state: State = "off"
        self.timeout = START_SECONDS
        self._setup = setup
        self._child: Child | None = None

    @property
    def descriptor(self) -> int | None:
        """The descriptor that becomes readable when the worker answers; None while it is not running."""
        return None if self._child is None else self._child.descriptor

    def start(self) -> None:
        """Start the process and send it the action.

        Raises:
            OSError: It cannot be started.
        """
        # its standard streams are empty: what an action prints can contain secrets
        self._child = Child(own_command("leadline.judge.action_worker"), own_environment(), has_messages=True)
        self._send(self._setup, "starting")

    def ask(self, message: ActionRequest) -> None:
        """Send it a notification."""
        self._send(message, "preparing")

    def receive(self) -> list[ActionAnswer]:
        """Read its answers; called when the descriptor is readable."""
        answers = [] if self._child is None else cast(list[ActionAnswer], self._child.receive())
        for answer in answers:
            self._set_state("busy" if answer.get("begun") else "idle" if self.state != "closing" else "closing")
        return answers

    def failure(self, now: float) -> str:
        """Return how its process ended, or for how long it has not answered; empty: neither."""
        if self._child is None:
            return ""
        self._child.flush()
        if self._child.has_hung_up:
            return f"its process {describe_exit(self._child.wait())}"
        return f"gave no answer for {self._limit_seconds:g} s" if self._child.is_overdue(now) else ""

    def retire(self) -> None:
        """Let an idle worker release its resources and exit; kill one that is busy."""
        if self.state == "idle" and self._child is not None:
            self._set_state("closing")
            self._child.hang_up()
        elif self.state not in ("off", "closing"):
            self.end()

    def end(self) -> None:
        """Kill the process."""
        if self._child is not None:
            self._child.close()
        self._child, self.state = None, "off"

    @property
    def _limit_seconds(self) -> float:
        limits = {"idle": float("inf"), "busy": self.timeout, "closing": CLOSE_SECONDS}
        return limits.get(self.state, START_SECONDS)

    def _send(self, message: ActionSetup | ActionRequest, state: State) -> None:
        assert self._child is not None
        self._child.send(message)
        self._set_state(state)

    def _set_state(self, state: State) -> None:
        self.state = state
        if self._child is not None:
            self._child.deadline = time.monotonic() + self._limit_seconds


ActionTransport = InlineAction | ActionProcess
