"""The log of performed actions: ``actions.jsonl``, completed by acknowledgements of requests."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from leadline.records.request import FAILED, REFUSED, Acknowledgement
from leadline.store import layout
from leadline.store.control import read_acknowledgements
from leadline.store.documents import read_lines

FINAL_STATES: Final = frozenset({"done", "failed", "given up", "dry run", "skipped"})
"""Final states; the only other state is ``asked``."""
FAILED_STATES: Final = frozenset({"failed", "given up"})
_TAKEN: Final = "taken"

Line = dict[str, Any]
Key = tuple[str, str, int]


def read_actions(run: str) -> list[Line]:
    """Return the latest state of each action for each notification, in the order in which they began.

    Requests to the training or the agent that were answered after the judge had ended are completed here.
    """
    lines = list(latest_lines(run).values())
    if not any(_is_open(line) for line in lines):
        return lines
    answers: dict[str, list[Acknowledgement]] = {}
    for acknowledgement in read_acknowledgements(run):
        answers.setdefault(acknowledgement.id, []).append(acknowledgement)
    return [_completed(line, answers.get(str(line.get("request")), [])) for line in lines]


def latest_lines(run: str) -> dict[Key, Line]:
    """Return the last line of each notification, action and index among identically named actions.

    Lines of the first version have no state and name only the finding.
    """
    latest: dict[Key, Line] = {}
    for line in read_lines(os.path.join(run, layout.ACTIONS)):
        notification = line.get("notice") or f"{line['rule']}/opened/{line.get('finding')}"
        latest[notification, line["action"], line.get("entry", 0)] = {"state": "done", "attempts": 1, **line}
    return latest


def request_outcome(asked: str, answers: Iterable[Acknowledgement]) -> tuple[str, str]:
    """Return state and outcome of an answered request; it is done if at least one process accepted it.

    Args:
        asked: The outcome so far: ``asked to stop at step 12``.
    """
    acknowledgements = list(answers)
    accepted = [answer for answer in acknowledgements if not answer.outcome.startswith((REFUSED, FAILED))]
    if not accepted:
        return "failed", acknowledgements[0].outcome
    if accepted[0].outcome != _TAKEN:
        return "done", accepted[0].outcome
    step = max(answer.step for answer in accepted)
    return "done", f"{asked}: applied at step {step}" if step >= 0 else f"{asked}: applied"


def _is_open(line: Line) -> bool:
    return line["state"] == "asked" and bool(line.get("request"))


def _completed(line: Line, answers: list[Acknowledgement]) -> Line:
    if not _is_open(line) or not answers:
        return line
    state, outcome = request_outcome(line["outcome"], answers)
    return {**line, "state": state, "outcome": outcome}
