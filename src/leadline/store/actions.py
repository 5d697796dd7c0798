"""What was done about what happened in a run: ``actions.jsonl``, and the answers that complete it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from leadline.records.request import FAILED, REFUSED, Acknowledgement
from leadline.store import layout
from leadline.store.control import read_acknowledgements
from leadline.store.documents import read_lines

FINAL: Final = frozenset({"done", "failed", "given up", "dry run", "skipped"})
"""States that do not change any more; beside them there is ``asked``."""
FAILURES: Final = frozenset({"failed", "given up"})
_TAKEN: Final = "taken"

Line = dict[str, Any]
Key = tuple[str, str, int]


def read_actions(run: str) -> list[Line]:
    """The last that is known of each notice and action, in the order in which they began.

    What was asked of the training or the agent, and answered when nobody judged any more, is completed here.
    """
    lines = list(last_lines(run).values())
    if not any(_is_open(each) for each in lines):
        return lines
    answers: dict[str, list[Acknowledgement]] = {}
    for each in read_acknowledgements(run):
        answers.setdefault(each.id, []).append(each)
    return [_completed(each, answers.get(str(each.get("request")), [])) for each in lines]


def last_lines(run: str) -> dict[Key, Line]:
    """The last line of each notice, action and place among those that are spoken alike.

    Lines of a first version have no state, and know the finding only.
    """
    found: dict[Key, Line] = {}
    for line in read_lines(os.path.join(run, layout.ACTIONS)):
        notice = line.get("notice") or f"{line['rule']}/opened/{line.get('finding')}"
        found[notice, line["action"], line.get("entry", 0)] = {"state": "done", "attempts": 1, **line}
    return found


def settled(asked: str, answers: Iterable[Acknowledgement]) -> tuple[str, str]:
    """State and outcome of what was asked for and has been answered; what one took up is done.

    Args:
        asked: ``asked to stop at step 12``.
    """
    said = list(answers)
    good = [each for each in said if not each.outcome.startswith((REFUSED, FAILED))]
    if not good:
        return "failed", said[0].outcome
    if good[0].outcome != _TAKEN:
        return "done", good[0].outcome
    step = max(each.step for each in good)
    return "done", f"{asked}: taken up at step {step}" if step >= 0 else f"{asked}: taken up"


def _is_open(line: Line) -> bool:
    return line["state"] == "asked" and bool(line.get("request"))


def _completed(line: Line, answers: list[Acknowledgement]) -> Line:
    if not _is_open(line) or not answers:
        return line
    state, outcome = settled(line["outcome"], answers)
    return {**line, "state": state, "outcome": outcome}
