"""The bound of a spool: raw tensors are removed from it, the oldest first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from leadline.store import layout


@dataclass(frozen=True, slots=True)
class SpoolFile:
    """A file of a run directory."""

    name: str
    nbytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Removed:
    """Raw tensors that were removed from a spool."""

    files: int = 0
    """The number of segments whose upload was complete: the store has them."""
    nbytes: int = 0
    lost_files: int = 0
    """The number of segments that had not been uploaded: nobody has them."""
    lost_bytes: int = 0


def trim(run: str, files: Iterable[SpoolFile], max_bytes: int, is_uploaded: Callable[[str], bool]) -> Removed:
    """Remove raw tensors until a spool is not larger than its bound; nothing else is ever removed.

    What was uploaded goes first, and of each the oldest. The latest segment of a worker stays, so that the next one
    gets the number after it.

    Args:
        run: The run directory.
        files: Its files.
        max_bytes: The bound.
        is_uploaded: Returns whether the store has a file.
    """
    known = list(files)
    excess = sum(file.nbytes for file in known) - max_bytes
    if excess <= 0:
        return Removed()
    raw = sorted((file for file in known if _is_raw(file.name)), key=lambda file: (file.modified_ns, file.name))
    latest = {os.path.dirname(file.name): file.name for file in sorted(raw, key=lambda file: file.name)}
    old = [(file, is_uploaded(file.name)) for file in raw if file.name not in latest.values()]
    counts = {True: (0, 0), False: (0, 0)}
    for file, is_stored in sorted(old, key=lambda candidate: not candidate[1]):
        if excess <= 0:
            break
        try:
            os.unlink(os.path.join(run, file.name))
        except FileNotFoundError:
            continue
        excess -= file.nbytes
        count, nbytes = counts[is_stored]
        counts[is_stored] = (count + 1, nbytes + file.nbytes)
    return Removed(*counts[True], *counts[False])


def _is_raw(name: str) -> bool:
    return name.startswith(f"{layout.TENSORS}/") and name.endswith(".safetensors")
