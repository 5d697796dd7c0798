"""Control requests and their acknowledgements, as immutable files."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Container, Iterable
from typing import Any, TypeVar

from leadline.records.request import (
    Acknowledgement,
    Answer,
    ControlRequest,
    request_from_dict,
    request_to_dict,
)
from leadline.store import layout
from leadline.store.documents import make_subfolder, read_document, write_document
from leadline.store.folder_watch import FolderWatch

T = TypeVar("T")


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
            records.append(decode(read_document(path)))
        except (TypeError, KeyError, ValueError):
            on_invalid(path)
    return records
