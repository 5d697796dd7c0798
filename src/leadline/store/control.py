"""Control requests and their acknowledgements, as immutable files."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import asdict
from typing import Final, TypeVar

from leadline.records.request import Acknowledgement, Request
from leadline.store import layout
from leadline.store.documents import make_subfolder, read_document, write_document

T = TypeVar("T", Request, Acknowledgement)

_CLOCK_TICK_NS: Final = 200_000_000


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
        run: The run directory, on a local disk.
    """

    def __init__(self, run: str) -> None:
        self._run, self._folder = run, os.path.join(run, layout.CONTROL)
        self._changed_ns = -1
        self._known: set[str] = set()

    def skip(self, identifiers: Iterable[str]) -> None:
        """Mark requests as read."""
        self._known.update(identifiers)

    def take(self) -> list[Request]:
        """Return the requests since the last call, oldest first."""
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns
        except OSError:
            return []
        if changed_ns == self._changed_ns and time.time_ns() - changed_ns > _CLOCK_TICK_NS:
            return []  # within one tick of the file system's clock a second change is not visible
        self._changed_ns = changed_ns
        requests = read_requests(self._run, known=self._known)
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
