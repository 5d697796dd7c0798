"""The terms of a run: which node's agent writes its status and runs its judge, one after the other.

Where all nodes see the run directory, a term begins with the creation of its file. Where they share only an object
store, the agent proposes a term in its own run directory, and the upload creates it in the store.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from leadline.records.decoding import Document
from leadline.store import layout
from leadline.store.documents import PRIVATE_FILE, encode, make_subfolder, read_document, write_document
from leadline.store.folder_watch import names_in
from leadline.store.incarnations import read_incarnations


@dataclass(frozen=True, slots=True)
class Term(Document):
    """``terms/<number>.json``: the time during which the agent of one node is the primary one."""

    number: int = 0
    """Counted from 1; 0: there was no term yet."""
    node: str = ""
    incarnation: int = 0
    """The incarnation of the run in which it began."""
    agent_pid: int = 0


def latest_term(run: str) -> Term:
    """Return the latest term of a run; that with the number 0 if there is none.

    Raises:
        OSError: It cannot be read.
    """
    numbers = [name.removesuffix(".json") for name in names_in(os.path.join(run, layout.TERMS))]
    number = max((int(text) for text in numbers if text.isdecimal()), default=0)
    return read_term(run, number) if number else Term()


def read_term(run: str, number: int) -> Term:
    """Read a term of a run."""
    term = Term.from_dict(read_document(os.path.join(run, layout.term(number))))
    return Term(number, term.node, term.incarnation, term.agent_pid)


def last_agent(run: str) -> tuple[int, int]:
    """Return the incarnation of the job and the number of the last term: they change when another agent takes over."""
    return read_incarnations(run).job, latest_term(run).number


def begin_term(run: str, term: Term) -> bool:
    """Begin a term; return whether that succeeded: of several agents that begin one with the same number, one does.

    Raises:
        OSError: It cannot be written.
    """
    make_subfolder(os.path.join(run, layout.TERMS))
    path = os.path.join(run, layout.term(term.number))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "wb") as file:
        file.write(encode(term) + b"\n")
    return True


def propose_term(run: str, term: Term) -> None:
    """Let the upload ask the store for a term.

    Raises:
        OSError: It cannot be written.
    """
    if proposed_term(run) != term:
        write_document(os.path.join(run, layout.PROPOSED_TERM), term)


def proposed_term(run: str) -> Term | None:
    """Return the term that the agent of a run directory wants to begin; None: it wants none."""
    path = os.path.join(run, layout.PROPOSED_TERM)
    return Term.from_dict(read_document(path)) if os.path.exists(path) else None


def withdraw_term(run: str) -> None:
    """Propose no term any more."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(run, layout.PROPOSED_TERM))
