"""Names of the objects of a run: those of its files, and those of chunks of files that still grow.

A growing file is the object of its name, if there is one, followed by its chunks. A file that grows no more is one
object: a run that is uploaded completely has the layout of a run directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from leadline.remote.object_store import StoredObject
from leadline.store import layout

_CHUNK: Final = re.compile(r"(.+)\.from-(\d{15})")
DATA: Final = (layout.TENSORS, layout.SERIES, layout.TIMELINE, layout.SYSTEM, layout.PROFILES)
_MAX_NAME: Final = 255
"""The longest name of a file, in bytes."""
_LOCAL: Final = (layout.UPLOAD, layout.RESERVE, layout.MIRROR)
_LOCAL_SUFFIXES: Final = (".part", ".lock", ".held", ".draft", ".alive", layout.HOLES)


def chunk(name: str, offset: int) -> str:
    """The object with the bytes of a file from an offset."""
    return f"{name}.from-{offset:015d}"


def is_safe(name: str) -> bool:
    """Return whether the name of an object can be that of a file within a run directory."""
    parts = name.split("/")
    return all(part not in ("", ".", "..") and len(part.encode(errors="replace")) <= _MAX_NAME for part in parts) and (
        "\0" not in name
    )


def is_data(name: str) -> bool:
    """Return whether a file is captured data, which documents refer to."""
    return name.partition("/")[0] in DATA


def is_growing(name: str) -> bool:
    """Return whether bytes are appended to a file, and its other bytes never change."""
    return name.endswith((*layout.SEGMENTS, layout.PACK))


def is_uploaded(name: str) -> bool:
    """Return whether a file belongs into a store: neither derived from others, nor about this machine only."""
    is_local = name in _LOCAL or name.endswith(_LOCAL_SUFFIXES) or name.partition("/")[0] == layout.COMPACT
    return not is_local and not name.rpartition("/")[2].startswith(".")


def document_order(name: str) -> tuple[bool, bool, str]:
    """Sort key of documents: the status of the run comes last, after everything that it sums up."""
    return name == layout.STATUS, name == layout.RULE_SUMMARY, name


@dataclass(slots=True)
class StoredFile:
    """The objects of one file."""

    whole: StoredObject | None = None
    chunks: dict[int, StoredObject] = field(default_factory=dict)
    """The chunks, by offset."""

    @property
    def whole_bytes(self) -> int:
        """The size of the object of the file's own name."""
        return self.whole.nbytes if self.whole else 0

    @property
    def nbytes(self) -> int:
        """The size up to which nothing is missing."""
        end = self.whole_bytes
        for offset in sorted(self.chunks):
            if offset > end:
                break
            end = max(end, offset + self.chunks[offset].nbytes)
        return end


def by_file(objects: Iterable[StoredObject]) -> dict[str, StoredFile]:
    """Return the files that objects belong to, by name."""
    files: dict[str, StoredFile] = {}
    for stored in objects:
        if (parsed := _CHUNK.fullmatch(stored.name)) is not None:
            files.setdefault(parsed[1], StoredFile()).chunks[int(parsed[2])] = stored
        else:
            files.setdefault(stored.name, StoredFile()).whole = stored
    return files
