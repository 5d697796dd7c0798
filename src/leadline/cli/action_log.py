"""The actions of a run as a block of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.records.documents import LoggedAction
from leadline.records.formatting import counted

_MAX_FAILURES: Final = 3
_LABELS: Final = {"asked": "in progress"}


def action_log(actions: Sequence[LoggedAction]) -> RenderableType:
    """One row for each action: how often it ran, its last outcome, and its failures."""
    table = Table.grid(padding=(0, 2))
    for name in dict.fromkeys(action.action for action in actions):
        table.add_row(Text(name), *_summary([action for action in actions if action.action == name]))
    return table


def _summary(actions: Sequence[LoggedAction]) -> tuple[RenderableType, RenderableType]:
    counts = Counter(action.state for action in actions)
    failed = [action for action in actions if action.has_failed]
    states = ", ".join(f"{count:,} {_LABELS.get(state, state)}" for state, count in counts.items())
    last = [action for action in actions if not action.has_failed and action.state != "skipped"][-1:]
    lines = [Text(f"{action.rule}: {action.outcome}", style="dim") for action in last]
    lines += [Text(f"{action.rule}: {action.outcome}", style="red") for action in failed[-_MAX_FAILURES:]]
    more = len(failed) - _MAX_FAILURES
    if more > 0:
        lines.append(Text(f"and {counted(more, 'earlier failure')}", style="dim"))
    return Text(states, style="red" if failed else ""), Group(*lines)
