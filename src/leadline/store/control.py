"""Control requests and their acknowledgements, as files that are written once and never changed."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import asdict
from typing import Final, TypeVar

from leadline.records.request import Acknowledgement, Request
from leadline.store import layout
from leadline.store.documents import make_leaf, read_document, write_document

T = TypeVar("T", Request, Acknowledgement)

_CLOCK_TICK_NS: Final = 200_000_000


def new_request_id() -> str:
    """An id that sorts by time and is taken by nobody."""
    return f"{time.time_ns():020d}-{secrets.token_hex(3)}"


def write_request(run: str, request: Request) -> None:
    """Put a request where every process of the run sees it.

    Raises:
        OSError: It could not be written.
    """
    make_leaf(os.path.join(run, layout.CONTROL))
    write_document(os.path.join(run, layout.request(request.id)), asdict(request))


def read_requests(
    run: str, *, complain: Callable[[str], None] | None = None, known: Container[str] = ()
) -> list[Request]:
    """Every request of the run, the oldest first.

    Args:
        complain: Takes the path of what somebody left there that is no request.
        known: The ids of those that are not read again.
    """
    return _read(os.path.join(run, layout.CONTROL), Request, complain, known)


class RequestReader:
    """The requests of a run that one reader has not seen yet.

    Args:
        run: The run folder, on a local disk.
    """

    def __init__(self, run: str) -> None:
        self._run, self._folder = run, os.path.join(run, layout.CONTROL)
        self._changed_ns = -1
        self._known: set[str] = set()

    def skip(self, identifiers: Iterable[str]) -> None:
        """Take requests for seen."""
        self._known.update(identifiers)

    def take(self) -> list[Request]:
        """Those that came since the last call, the oldest first."""
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns
        except OSError:
            return []
        if changed_ns == self._changed_ns and time.time_ns() - changed_ns > _CLOCK_TICK_NS:
            return []  # a second change within one tick of the file system's clock would look like none
        self._changed_ns = changed_ns
        found = read_requests(self._run, known=self._known)
        self.skip(each.id for each in found)
        return found


def write_acknowledgement(run: str, acknowledgement: Acknowledgement) -> None:
    """Say what became of a request.

    Raises:
        OSError: It could not be written.
    """
    make_leaf(os.path.join(run, layout.CONTROL))
    make_leaf(os.path.join(run, layout.ACKS))
    path = os.path.join(run, layout.acknowledgement(acknowledgement.id, acknowledgement.worker))
    write_document(path, asdict(acknowledgement))


def read_acknowledgements(run: str) -> list[Acknowledgement]:
    """Every acknowledgement of the run."""
    return _read(os.path.join(run, layout.ACKS), Acknowledgement, None)


def _read(folder: str, kind: type[T], complain: Callable[[str], None] | None, known: Container[str] = ()) -> list[T]:
    found = []
    for path in _documents(folder, known, complain):
        try:
            found.append(kind(**read_document(path)))  # type: ignore[arg-type]
        except TypeError:
            if complain is not None:
                complain(path)
    return found


def _documents(folder: str, known: Container[str], complain: Callable[[str], None] | None) -> list[str]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        if complain is not None:
            complain(folder)
        return []
    wanted = (name for name in sorted(names) if name.endswith(".json") and name.removesuffix(".json") not in known)
    return [os.path.join(folder, name) for name in wanted]
