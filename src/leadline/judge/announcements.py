"""Lines that the agent shows in the terminal: new findings, and the outcomes of actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from leadline.records.documents import Announcement
from leadline.records.finding import Finding

_MAX_ANNOUNCED: Final = 100
"""So many findings of one rule are announced; all of them are written."""


class Announcements:
    """The announcements of a run, each made once.

    Attributes:
        lines: In the order in which they were made.
    """

    def __init__(self) -> None:
        self.lines: list[Announcement] = []

    def restore(self, lines: Iterable[Announcement]) -> None:
        """Continue after what an earlier judge announced."""
        self.lines = list(lines)

    def add_finding(self, finding: Finding, action: str | None, causes: Mapping[str, str]) -> bool:
        """Announce a new finding, and only with its action if another one explains it; return whether that is new.

        Of a rule that fires again, only the first part of the message is repeated, unless an action does something.

        Args:
            action: What an action does about it.
            causes: The rules whose findings others explain, with the rule at the root.
        """
        if finding.rule in causes and action is None:
            return False
        announced = [line for line in self.lines if line.kind is None]
        known = {(line.step, line.message) for line in announced if line.rule == finding.rule}
        again = f"again, {finding.message.partition('; ')[0]}"
        if known.intersection({(finding.step, finding.message), (finding.step, again)}) or len(known) >= _MAX_ANNOUNCED:
            return False
        is_repeated = action is None and any(step != finding.step for step, _ in known)
        explained = tuple(
            rule for rule in dict.fromkeys(line.rule for line in announced) if causes.get(rule) == finding.rule
        )
        number = len(self.lines) + 1
        line = Announcement(
            number, finding.step, finding.rule, again if is_repeated else finding.message, action, explains=explained
        )
        self.lines.append(line)
        return True

    def add_action(self, rule: str, message: str, is_failure: bool) -> bool:
        """Announce the outcome of an action; return whether that is new."""
        kind = "failure" if is_failure else "action"
        line = Announcement(len(self.lines) + 1, rule=rule, message=message, kind=kind)
        if any(replace(other, id=line.id) == line for other in self.lines):
            return False
        self.lines.append(line)
        return True
