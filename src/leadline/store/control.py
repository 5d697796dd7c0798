"""Control requests and their acknowledgements, as immutable files."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import asdict
from typing import TypeVar

from leadline.records.request import Acknowledgement, Request
from leadline.store import layout
from leadline.store.documents import make_subfolder, read_document, write_document
from leadline.store.folder_watch import FolderWatch

T = TypeVar("T", Request, Acknowledgement)


def new_request_id() -> str:
    """Return a unique id that sorts by time."""
    return f"{time.time_ns():020d}-{secrets.token_hex(3)}"


def write_request(run: str, request: Request) -> None:
    """Write a request for all processes of the run.

    Raises:
        OSError: It could not be written.
    """
    make_subfolder(os.path.join(run, layout.CONTROL))
    write_document(os.path.join(run, layout.request(request.id)), asdict(request))


def read_requests(
    run: str, *, on_invalid: Callable[[str], None] | None = None, known: Container[str] = ()
) -> list[Request]:
    """Return all requests of the run, oldest first.

    Args:
        on_invalid: Called with the path of a file that is not a request.
        known: Ids of requests to skip.
    """
    return _read(os.path.join(run, layout.CONTROL), Request, on_invalid, known)


class RequestReader:
    """Reads the requests of a run that it has not returned before.

    Args:
        run: The run directory.
        on_invalid: Called with what cannot be read.
    """

    def __init__(self, run: str, on_invalid: Callable[[str], None] | None = None) -> None:
        self._run, self._on_invalid = run, on_invalid
        self._watch = FolderWatch(os.path.join(run, layout.CONTROL))
        self._known: set[str] = set()

    def skip(self, identifiers: Iterable[str]) -> None:
        """Mark requests as read."""
        self._known.update(identifiers)

    def take(self) -> list[Request]:
        """Return the requests since the last call, oldest first."""
        if not self._watch.has_changed():
            return []
        try:
            requests = read_requests(self._run, on_invalid=self._on_invalid, known=self._known)
        except OSError as error:
            self._watch.forget()
            if self._on_invalid is not None:
                self._on_invalid(str(error))
            return []
        self.skip(request.id for request in requests)
        return requests


def write_acknowledgement(run: str, acknowledgement: Acknowledgement) -> None:
    """Write the acknowledgement of a request.

    Raises:
        OSError: It could not be written.
    """
    make_subfolder(os.path.join(run, layout.CONTROL))
    make_subfolder(os.path.join(run, layout.ACKS))
    path = os.path.join(run, layout.acknowledgement(acknowledgement.id, acknowledgement.worker))
    write_document(path, asdict(acknowledgement))


def read_acknowledgements(run: str) -> list[Acknowledgement]:
    """Return all acknowledgements of the run."""
    return _read(os.path.join(run, layout.ACKS), Acknowledgement, None)


def _read(folder: str, kind: type[T], on_invalid: Callable[[str], None] | None, known: Container[str] = ()) -> list[T]:
    records = []
    for path in _documents(folder, known, on_invalid):
        try:
            records.append(kind(**read_document(path)))  # type: ignore[arg-type]
        except TypeError:
            if on_invalid is not None:
                on_invalid(path)
    return records


def _documents(folder: str, known: Container[str], on_invalid: Callable[[str], None] | None) -> list[str]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        if on_invalid is not None:
            on_invalid(folder)
        return []
    wanted = (name for name in sorted(names) if name.endswith(".json") and name.removesuffix(".json") not in known)
    return [os.path.join(folder, name) for name in wanted]
