"""The judge as the agent sees it: its process, the rule summary that it writes, and the findings to announce."""

from __future__ import annotations

import signal
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from leadline.agent.progress import WatchedFile
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import TO_STDERR, SignalGate
from leadline.agent.terminal import Terminal
from leadline.process.child import Child
from leadline.process.interpreter import own_command, own_environment
from leadline.records import describe
from leadline.records.documents import ManifestDocument, RuleSummary
from leadline.store import layout

_RESTARTS: Final = 3
"""How often a judge that exits early is restarted within an hour."""
_HOUR_SECONDS: Final = 3600.0
_BACK_OFF_SECONDS: Final = 1.0
_MAX_ANNOUNCED: Final = 20
_POLL_SECONDS: Final = 0.01
_GRACE_SECONDS: Final = 2.0


def judge_command(run: str, trust: str) -> list[str] | None:
    """Return the command that starts the judge of a run; None where the judge is not installed.

    Args:
        trust: The digest of the rules and actions with which the agent was started.
    """
    if find_spec("leadline.judge") is None:
        return None
    return own_command("leadline.judge", run, "--follow", "--trust", trust)


class JudgeSupervisor:
    """Keeps the judge running while the run needs one, and announces its findings in the terminal.

    The judge is started before the job, and restarted up to three times an hour if it exits early.

    **Never affects the training** - without a judge the training continues, and the user is told how to evaluate
    the rules afterwards.

    Args:
        command: The command that starts the judge; None: it is not installed.
    """

    def __init__(
        self,
        documents: RunDocuments,
        manifest: ManifestDocument,
        command: list[str] | None,
        gate: SignalGate,
        *,
        terminal: Terminal,
        clock: Callable[[], float],
    ) -> None:
        self.summary: RuleSummary | None = None
        """The latest rule summary; None: none was read yet."""
        self._has_rules_or_actions = bool(manifest.rules or manifest.actions)
        self.is_needed = self._has_rules_or_actions and not documents.is_secondary
        self._command = command
        self._gate = gate
        self._terminal = terminal
        self._clock = clock
        self._child: Child | None = None
        self._ends: list[float] = []
        """When it exited early, within the last hour."""
        self._next_start: float | None = None
        self._has_warned = self._is_retired = False
        self._file = WatchedFile(documents.path(layout.RULE_SUMMARY))
        self._last_announced = 0

    @property
    def is_over(self) -> bool:
        """Whether the judge is not running and will not be started again."""
        return self._child is None and self._next_start is None

    @property
    def pid(self) -> int:
        """The pid of the judge; 0: it is not running."""
        return 0 if self._child is None else self._child.pid

    def start(self) -> None:
        """Start the judge."""
        self._next_start = None
        if self._command is None:
            self._warn("the judge is not installed: rules are not evaluated")
            return
        environment = own_environment() | {"LEADLINE_DISABLED": "1"}
        try:
            # a session of its own, so that Ctrl-C does not reach it before it has evaluated the end of the run
            self._child = self._gate.spawn(self._command, environment, streams=TO_STDERR, has_own_session=True)
        except OSError as error:
            self._warn(f"cannot start the judge: {error.strerror}")

    def enable(self) -> None:
        """Start the judge if the run has rules or actions: this agent has become the primary one."""
        self.is_needed, self._is_retired = self._has_rules_or_actions, False
        if self.is_needed:
            self.start()

    def disable(self) -> None:
        """Do without a judge from now on."""
        self.is_needed = False
        self._retire()

    def poll(self, now: float, *, is_urgent: bool = False) -> None:
        """Notice the end of the judge, and restart it when the back-off time has passed."""
        if self._child is not None and self._child.code is not None:
            code, self._child = self._child.code, None
            self._schedule_restart(code, now)
        if self._next_start is not None and (is_urgent or now >= self._next_start):
            self.start()

    def terminate(self, number: int, seconds: float) -> None:
        """Send a signal to the judge, if it is running, and wait for its end; it is not started again."""
        self._retire()
        if self._child is None:
            return
        self._child.send_signal(number)
        end = self._clock() + seconds
        while self._child.code is None and self._clock() < end:
            self._gate.wait(_POLL_SECONDS)
            self._gate.reap()

    def detach(self) -> None:
        """Replace the judge by one that has no part of our terminal, and follows the run after this agent has ended."""
        if not self.is_needed or self._command is None:
            return
        self.terminate(signal.SIGTERM, _GRACE_SECONDS)
        self.terminate(signal.SIGKILL, _GRACE_SECONDS)
        self._gate.spawn(self._command, own_environment() | {"LEADLINE_DISABLED": "1"}, has_own_session=True)

    def read_summary(self) -> bool:
        """Read the rule summary if it changed, announce new findings, and return whether it changed."""
        change = self._file.read_change()
        if change is None:
            return False
        self.summary = RuleSummary.from_dict(change)
        self._announce(self.summary)
        return True

    def has_completed(self) -> bool:
        """Return whether everything is evaluated and every action is delivered or given up."""
        self.read_summary()
        return self.summary is not None and self.summary.complete and not self.summary.delivering

    def pending_deliveries(self) -> list[str]:
        """Return the names of the actions that are still being delivered."""
        return list(self.summary.delivering) if self.summary is not None else []

    def _retire(self) -> None:
        self._next_start = None
        self._is_retired = True

    def _schedule_restart(self, code: int, now: float) -> None:
        if self.has_completed() or self._is_retired:
            return
        how = f"status {code}" if code >= 0 else f"signal {-code}"
        self._ends = [*(end for end in self._ends if now - end < _HOUR_SECONDS), now]
        if len(self._ends) > _RESTARTS:
            self._warn(f"the judge failed again ({how}) and is not restarted", is_final=True)
            return
        self._warn(f"the judge exited unexpectedly ({how}); restarting it")
        self._next_start = now + _BACK_OFF_SECONDS * 2 ** (len(self._ends) - 1)

    def _warn(self, text: str, *, is_final: bool = False) -> None:
        if not self._has_warned or is_final:
            self._has_warned = True
            advice = "Training continues; evaluate the rules afterwards with: leadline judge"
            self._terminal.message(f"{text}. {advice}", "warning")

    def _announce(self, summary: RuleSummary) -> None:
        for announcement in summary.announcements:
            if announcement.id <= self._last_announced:
                continue
            self._last_announced = announcement.id
            if self._last_announced <= _MAX_ANNOUNCED or announcement.action or announcement.kind:
                style = {"action": "plain", "failure": "warning"}.get(announcement.kind or "", "finding")
                self._terminal.message(describe.announcement(announcement), style)
            elif self._last_announced == _MAX_ANNOUNCED + 1:
                self._terminal.message("further findings are not listed here: leadline show", "finding")
