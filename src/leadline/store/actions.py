"""The log of performed actions: ``actions.jsonl``, completed by acknowledgements of requests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from leadline.records.documents import LoggedAction
from leadline.records.request import Acknowledgement, Answer
from leadline.store import layout
from leadline.store.control import read_acknowledgements
from leadline.store.documents import read_lines

Key = tuple[str, str, int]


def read_actions(run: str) -> list[LoggedAction]:
    """Return the latest state of each action for each notification, in the order in which they began.

    Requests to the training or the agent that were answered after the judge had ended are completed here.
    """
    entries = list(latest_entries(run).values())
    if not any(entry.is_awaiting_answer for entry in entries):
        return entries
    answers = read_acknowledgements(run)
    return [_completed(entry, answers.get(entry.request or "", [])) for entry in entries]


def latest_entries(run: str) -> dict[Key, LoggedAction]:
    """Return the last line of each notification, action and index among identically named actions.

    Lines of the first version have no state and name only the finding.
    """
    latest: dict[Key, LoggedAction] = {}
    for line in read_lines(os.path.join(run, layout.ACTIONS)):
        if not isinstance(line, dict):
            continue
        entry = LoggedAction.from_dict(line)
        latest[entry.notice or f"{entry.rule}/opened/{entry.finding}", entry.action, entry.entry] = entry
    return latest


def joint_answer(acknowledgements: Sequence[Acknowledgement]) -> Answer:
    """Return the answer of all processes: accepted if at least one accepted the request."""
    answers = [acknowledgement.answer for acknowledgement in acknowledgements]
    return next((answer for answer in answers if answer.is_accepted), answers[0])


def result_of(asked: str, acknowledgements: Sequence[Acknowledgement]) -> str:
    """Return the result of an accepted request: what it was asked for, and the step at which it was applied.

    Args:
        asked: The outcome so far: ``asked to stop at step 12``.
    """
    answer = joint_answer(acknowledgements)
    if answer.reason:
        return answer.reason
    step = max(acknowledgement.step for acknowledgement in acknowledgements if acknowledgement.answer.is_accepted)
    return f"{asked}: applied at step {step}" if step >= 0 else f"{asked}: applied"


def _completed(entry: LoggedAction, acknowledgements: list[Acknowledgement]) -> LoggedAction:
    if not entry.is_awaiting_answer or not acknowledgements:
        return entry
    answer = joint_answer(acknowledgements)
    if answer.is_accepted:
        return replace(entry, state="done", outcome=result_of(entry.outcome, acknowledgements))
    return replace(entry, state="failed", outcome=str(answer))
