"""What was done about what happened in a run, as a page of text has it."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.records.formatting import counted
from leadline.store.actions import FAILURES

_MOST_FAILURES: Final = 3
_WORDS: Final = {"asked": "under way", "dry run": "only described"}


def action_log(actions: list[dict[str, Any]]) -> RenderableType:
    """A row an action: how often it was done, what it last said, and what came to nothing.

    Args:
        actions: As ``leadline show --json`` has them.
    """
    table = Table.grid(padding=(0, 2))
    for name in dict.fromkeys(each["action"] for each in actions):
        table.add_row(Text(name), *_told([each for each in actions if each["action"] == name]))
    return table


def _told(actions: list[dict[str, Any]]) -> tuple[RenderableType, RenderableType]:
    counts = Counter(each["state"] for each in actions)
    failed = [each for each in actions if each["state"] in FAILURES]
    words = ", ".join(f"{count:,} {_WORDS.get(state, state)}" for state, count in counts.items())
    last = [each for each in actions if each["state"] not in (*FAILURES, "skipped")][-1:]
    lines = [Text(f"{each['rule']}: {each['outcome']}", style="dim") for each in last]
    lines += [Text(f"{each['rule']}: {each['outcome']}", style="red") for each in failed[-_MOST_FAILURES:]]
    more = len(failed) - _MOST_FAILURES
    if more > 0:
        lines.append(Text(f"and {counted(more, 'failure')} before", style="dim"))
    return Text(words, style="red" if failed else ""), Group(*lines)
