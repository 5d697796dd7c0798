"""Control requests and their acknowledgements, as files that are written once and never changed."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar

from leadline.records.request import Acknowledgement, Request
from leadline.store import layout
from leadline.store.documents import make_leaf, read_document, write_document

T = TypeVar("T", Request, Acknowledgement)


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


def read_requests(run: str, *, complain: Callable[[str], None] | None = None) -> list[Request]:
    """Every request of the run, the oldest first.

    Args:
        complain: Takes the path of what somebody left there that is no request.
    """
    return _read(os.path.join(run, layout.CONTROL), Request, complain)


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


def _read(folder: str, kind: type[T], complain: Callable[[str], None] | None) -> list[T]:
    found = []
    for path in _documents(folder):
        try:
            found.append(kind(**read_document(path)))  # type: ignore[arg-type]
        except TypeError:
            if complain is not None:
                complain(path)
    return found


def _documents(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [os.path.join(folder, name) for name in sorted(names) if name.endswith(".json")]
