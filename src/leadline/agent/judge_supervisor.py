"""The judge as the agent sees it: its process, the rule summary that it writes, and the findings to announce."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from leadline.agent.judge_process import JudgeProcess
from leadline.agent.progress import Document, WatchedFile, describe_announcement, read_with_retries
from leadline.agent.run_documents import RunDocuments
from leadline.agent.signals import SignalGate
from leadline.agent.terminal import Terminal
from leadline.store import layout

_MAX_ANNOUNCED: Final = 20


class JudgeSupervisor:
    """Keeps the judge running while the run needs one, and announces its findings in the terminal.

    Args:
        command: The command that starts the judge; None: it is not installed.
    """

    def __init__(
        self,
        documents: RunDocuments,
        manifest: Document,
        command: list[str] | None,
        gate: SignalGate,
        *,
        terminal: Terminal,
        clock: Callable[[], float],
    ) -> None:
        self.summary: Document | None = None
        """The latest rule summary; None: none was read yet."""
        self._has_rules_or_actions = bool(manifest.get("rules") or manifest.get("actions"))
        self.is_needed = self._has_rules_or_actions and not documents.is_secondary
        self.process = JudgeProcess(
            command,
            os.environ,
            gate,
            warn=lambda text: terminal.message(text, "warning"),
            has_completed=self.has_completed,
        )
        self._terminal, self._clock = terminal, clock
        self._file = WatchedFile(documents.path(layout.RULE_SUMMARY))
        self._last_announced = 0

    def start(self) -> None:
        """Start the judge."""
        self.process.start()

    def enable(self) -> None:
        """Start the judge if the run has rules or actions: this agent has become the primary one."""
        self.is_needed = self._has_rules_or_actions
        if self.is_needed:
            self.process.start()

    def disable(self) -> None:
        """Do without a judge from now on."""
        self.is_needed = False
        self.process.retire()

    def on_exit(self, pid: int, code: int) -> None:
        """Handle the end of a child process, in case it was the judge."""
        if pid == self.process.pid:
            self.process.on_exit(code, self._clock())

    def read_summary(self) -> bool:
        """Read the rule summary if it changed, announce new findings, and return whether it changed."""
        if not self._file.has_changed():
            return False
        self.summary = read_with_retries(self._file.path) or self.summary
        self._announce()
        return True

    def has_completed(self) -> bool:
        """Return whether everything is evaluated and every action is delivered or given up."""
        self.read_summary()
        return bool((self.summary or {}).get("complete")) and not self.pending_deliveries()

    def pending_deliveries(self) -> list[str]:
        """Return the names of the actions that are still being delivered."""
        return list((self.summary or {}).get("delivering") or [])

    def _announce(self) -> None:
        for announcement in (self.summary or {}).get("announcements") or []:
            if announcement["id"] <= self._last_announced:
                continue
            self._last_announced = announcement["id"]
            if self._last_announced <= _MAX_ANNOUNCED or announcement.get("action") or announcement.get("kind"):
                style = {"action": "plain", "failure": "warning"}.get(announcement.get("kind"), "finding")
                self._terminal.message(describe_announcement(announcement), style)
            elif self._last_announced == _MAX_ANNOUNCED + 1:
                self._terminal.message("further findings are not listed here: leadline show", "finding")
