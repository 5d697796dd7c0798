"""What was done, as a page of text has it."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from leadline.cli.action_log import action_log


def deed(action: str, state: str, outcome: str = "sent", rule: str = "r") -> dict[str, Any]:
    return {"rule": rule, "action": action, "state": state, "outcome": outcome}


def shown(*actions: dict[str, Any]) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=120).print(action_log(list(actions)))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_row_an_action_with_its_last_words() -> None:
    assert shown(
        deed("notify:$MAIL", "done", "sent to 1"),
        deed("webhook:$URL", "dry run", "dry run: would post"),
        deed("notify:$MAIL", "done", "sent to 2"),
        deed("notify:$MAIL", "skipped", "skipped: within its cool-down"),
        deed("tracker", "asked", "under way"),
    ) == [
        "notify:$MAIL  2 done, 1 skipped  r: sent to 2",
        "webhook:$URL  1 only described   r: dry run: would post",
        "tracker       1 under way        r: under way",
    ]


def test_the_last_failures_are_told() -> None:
    failed = [deed("a", "failed", f"failed: {index}") for index in range(4)]
    assert shown(*failed, deed("a", "given up", "given up: the run had ended")) == [
        "a  4 failed, 1 given up  r: failed: 2",
        "                         r: failed: 3",
        "                         r: given up: the run had ended",
        "                         and 2 failures before",
    ]
