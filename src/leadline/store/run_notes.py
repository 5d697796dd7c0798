"""The note and the tags that a person gives a run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leadline.config.secrets import scrub
from leadline.errors import ConfigurationError
from leadline.records.decoding import Document
from leadline.store import layout
from leadline.store.documents import read_document, write_document

MAX_NOTE_CHARACTERS: Final = 2000
MAX_TAGS: Final = 20
MAX_TAG_CHARACTERS: Final = 40


@dataclass(frozen=True, slots=True)
class RunNotes(Document):
    """``notes.json``: what a person wrote about a run."""

    note: str = ""
    tags: tuple[str, ...] = ()
    """In the order in which they were given, without duplicates."""


def make_notes(note: str, tags: Iterable[str]) -> RunNotes:
    """Return notes without blanks around them, without empty or repeated tags, and without secrets.

    Raises:
        ConfigurationError: The note or a tag is too long, or there are too many tags.
    """
    note = scrub(note.strip())
    distinct = tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if len(note) > MAX_NOTE_CHARACTERS:
        raise ConfigurationError(f"the note has {len(note):,} characters; at most {MAX_NOTE_CHARACTERS:,} are stored")
    if len(distinct) > MAX_TAGS:
        raise ConfigurationError(f"these are {len(distinct)} tags; at most {MAX_TAGS} are stored")
    for tag in distinct:
        if len(tag) > MAX_TAG_CHARACTERS:
            raise ConfigurationError(f"a tag has at most {MAX_TAG_CHARACTERS} characters; {tag[:50]!r} has {len(tag)}")
    return RunNotes(note, distinct)


def read_notes(run: str) -> RunNotes:
    """Return the notes of a run; empty if there are none or they cannot be read."""
    try:
        return RunNotes.from_dict(read_document(os.path.join(run, layout.NOTES)))
    except OSError:
        return RunNotes()


def write_notes(run: str, notes: RunNotes) -> None:
    """Replace the notes of a run.

    Raises:
        OSError: They could not be written.
    """
    write_document(os.path.join(run, layout.NOTES), notes)
