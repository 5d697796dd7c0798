"""Control requests, their acknowledgements, and the log of the actions that made them."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from leadline.records.documents import LoggedAction
from leadline.records.request import (
    Acknowledgement,
    Answer,
    ControlRequest,
    request_from_dict,
    request_to_dict,
)
from leadline.store import layout
from leadline.store.documents import make_subfolder, read_document, read_lines, write_document
from leadline.store.folder_watch import FolderWatch

T = TypeVar("T", ControlRequest, Acknowledgement)


def new_request_id() -> str:
    """Return a unique id that sorts by time."""
    return f"{time.time_ns():020d}-{secrets.token_hex(3)}"


def write_request(run: str, request: ControlRequest) -> None:
    """Write a request for all processes of the run.

    Raises:
        OSError: It could not be written.
    """
    make_subfolder(os.path.join(run, layout.CONTROL))
    write_document(os.path.join(run, layout.request(request.id)), request_to_dict(request))


def read_requests(
    run: str, *, on_invalid: Callable[[str], None] = lambda path: None, known: Container[str] = ()
) -> list[ControlRequest]:
    """Return all requests of the run, oldest first.

    Args:
        on_invalid: Called with the path of a file that is not a request.
        known: Ids of requests to skip.
    """
    return _read(os.path.join(run, layout.CONTROL), request_from_dict, on_invalid, known=known)


class RequestReader:
    """Reads the requests of a run that it has not returned before.

    Args:
        run: The run directory.
        on_invalid: Called with what cannot be read.
    """

    def __init__(self, run: str, on_invalid: Callable[[str], None] = lambda problem: None) -> None:
        self._run, self._on_invalid = run, on_invalid
        self._watch = FolderWatch(os.path.join(run, layout.CONTROL))
        self._known: set[str] = set()

    def skip(self, identifiers: Iterable[str]) -> None:
        """Mark requests as read."""
        self._known.update(identifiers)

    def may_have_more(self) -> bool:
        """Return whether there may be requests since the last call of ``take``."""
        return self._watch.may_have_changed()

    def take(self) -> list[ControlRequest]:
        """Return the requests since the last call, oldest first."""
        if not self._watch.has_changed():
            return []
        try:
            requests = read_requests(self._run, on_invalid=self._on_invalid, known=self._known)
        except OSError as error:
            self._watch.forget()
            self._on_invalid(str(error))
            return []
        self.skip(request.id for request in requests)
        return requests


def acknowledge(run: str, request: str, worker: str, step: int, answer: Answer) -> str:
    """Write the answer of a worker, an agent or the judge to a request; return why that failed, "" if it did not.

    Args:
        request: The id of the request.
        step: The step at which it was applied; -1 for a process without steps.
    """
    acknowledgement = Acknowledgement(request, worker, step, time.time_ns(), answer)
    try:
        make_subfolder(os.path.join(run, layout.CONTROL))
        make_subfolder(os.path.join(run, layout.ACKS))
        write_document(os.path.join(run, layout.acknowledgement(request, worker)), acknowledgement.to_dict())
    except OSError as error:
        return error.strerror or str(error)
    return ""


def read_acknowledgements(run: str, requests: Container[str] | None = None) -> dict[str, list[Acknowledgement]]:
    """Return the acknowledgements of the run, by request.

    Args:
        requests: Only those of these requests; None: all.
    """
    answers: dict[str, list[Acknowledgement]] = {}
    for acknowledgement in _read(os.path.join(run, layout.ACKS), Acknowledgement.from_dict, wanted=requests):
        answers.setdefault(acknowledgement.id, []).append(acknowledgement)
    return answers


def _read(
    folder: str,
    decode: Callable[[Any], T],
    on_invalid: Callable[[str], None] = lambda path: None,
    *,
    known: Container[str] = (),
    wanted: Container[str] | None = None,
) -> list[T]:
    """Return the records in a folder, except those of known and only those of wanted requests."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        on_invalid(folder)
        return []
    records = []
    for name in names:
        request = name.partition(".")[0]
        if not name.endswith(".json") or request in known or (wanted is not None and request not in wanted):
            continue
        path = os.path.join(folder, name)
        try:
            record = decode(read_document(path))
        except (TypeError, KeyError, ValueError):
            on_invalid(path)
            continue
        if record.id == request:  # its answers are files of that name
            records.append(record)
        else:
            on_invalid(path)
    return records


# --- the log of performed actions: ``actions.jsonl``, completed by acknowledgements of requests --------------

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
        asked: The outcome so far: ``stop requested at step 12``.
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
