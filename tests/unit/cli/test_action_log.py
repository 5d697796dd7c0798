"""The actions of a run as a block of text."""

from __future__ import annotations

import io

from rich.console import Console

from leadline.cli.run_page import action_log
from leadline.records.documents import LoggedAction


def entry(name: str, state: str, outcome: str = "sent", rule: str = "r") -> LoggedAction:
    return LoggedAction(rule=rule, action=name, state=state, outcome=outcome)


def shown(*actions: LoggedAction) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=120).print(action_log(list(actions)))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_one_row_for_each_action_with_its_last_outcome() -> None:
    assert shown(
        entry("notify:$MAIL", "done", "sent to 1"),
        entry("webhook:$URL", "dry run", "dry run: would post"),
        entry("notify:$MAIL", "done", "sent to 2"),
        entry("notify:$MAIL", "skipped", "skipped: within its cool-down"),
        entry("tracker", "asked", "under way"),
    ) == [
        "notify:$MAIL  2 done, 1 skipped  r: sent to 2",
        "webhook:$URL  1 dry run          r: dry run: would post",
        "tracker       1 in progress      r: under way",
    ]


def test_the_last_failures_are_shown() -> None:
    failed = [entry("a", "failed", f"failed: {index}") for index in range(4)]
    assert shown(*failed, entry("a", "given up", "given up: the run had ended")) == [
        "a  4 failed, 1 given up  r: failed: 2",
        "                         r: failed: 3",
        "                         r: given up: the run had ended",
        "                         and 2 earlier failures",
    ]
