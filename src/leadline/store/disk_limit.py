"""The bound of a run directory: raw tensors are removed from it, the oldest first; nothing else ever is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from leadline.records.decoding import Document
from leadline.records.formatting import counted, size
from leadline.store import layout
from leadline.store.documents import read_document, write_document


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file of a run directory."""

    name: str
    nbytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Removed:
    """Raw tensors that were removed from a run directory."""

    files: int = 0
    """The number of segments that are not lost: an object store has them, or nobody wants them any more."""
    nbytes: int = 0
    lost_files: int = 0
    """The number of segments that had not been uploaded, but should have been: nobody has them."""
    lost_bytes: int = 0


def trim(
    run: str,
    files: Iterable[RunFile],
    max_bytes: int,
    is_uploaded: Callable[[str], bool],
    max_waiting_bytes: int | None = None,
) -> Removed:
    """Remove raw tensors until a run directory is not larger than its bound; nothing else is ever removed.

    What was uploaded goes first, and of each the oldest. The latest segment of a worker stays, so that the next one
    gets the number after it.

    Args:
        run: The run directory.
        files: Its files.
        max_bytes: The bound.
        is_uploaded: Returns whether a file is not lost by its removal.
        max_waiting_bytes: The bound up to which files that are still to be uploaded stay; None: the same one.
    """
    known = list(files)
    excess = sum(file.nbytes for file in known) - max_bytes
    waiting = 0 if max_waiting_bytes is None else max_waiting_bytes - max_bytes
    if excess <= 0:
        return Removed()
    old = [(file, is_uploaded(file.name)) for file in _removable(known)]
    counts = {True: (0, 0), False: (0, 0)}
    for file, is_stored in sorted(old, key=lambda candidate: not candidate[1]):
        if excess <= (0 if is_stored else waiting):
            break
        try:
            os.unlink(os.path.join(run, file.name))
        except FileNotFoundError:
            continue
        excess -= file.nbytes
        count, nbytes = counts[is_stored]
        counts[is_stored] = (count + 1, nbytes + file.nbytes)
    return Removed(*counts[True], *counts[False])


def raw_bytes(run: str) -> int:
    """Return the size of the raw tensors that may be removed from a run directory."""
    return sum(file.nbytes for file in _removable(run_files(run)))


def _removable(files: Iterable[RunFile]) -> list[RunFile]:
    """Return the segments of raw tensors, the oldest first, without the latest one of each worker."""
    raw = sorted((file for file in files if _is_raw(file.name)), key=lambda file: (file.modified_ns, file.name))
    latest = {os.path.dirname(file.name): file.name for file in sorted(raw, key=lambda file: file.name)}
    return [file for file in raw if file.name not in latest.values()]


@dataclass(frozen=True, slots=True)
class DiskLimit(Document):
    """``disk.json``: the bound of a run directory, and what was removed because of it."""

    max_bytes: int | None = None
    """None: there is no bound."""
    removed_files: int = 0
    removed_bytes: int = 0

    def describe(self) -> str:
        """Return what was removed: ``12 files of raw tensors (1.9 GB) removed to stay within 20 GB``; "": nothing."""
        if not self.removed_files:
            return ""
        removed = f"{counted(self.removed_files, 'file')} of raw tensors ({size(self.removed_bytes)}) removed"
        return f"{removed} to stay within {size(self.max_bytes)}" if self.max_bytes is not None else removed

    def with_removed(self, removed: Removed) -> DiskLimit:
        """Return the bound after more was removed."""
        return DiskLimit(self.max_bytes, self.removed_files + removed.files, self.removed_bytes + removed.nbytes)


def read_disk_limit(run: str) -> DiskLimit:
    """Read the bound of a run directory; the default: it has none."""
    return DiskLimit.from_dict(read_document(os.path.join(run, layout.DISK)))


def write_disk_limit(run: str, bound: DiskLimit) -> None:
    """Replace the bound of a run directory.

    Raises:
        OSError: It could not be written.
    """
    write_document(os.path.join(run, layout.DISK), bound)


def remove_excess(run: str, max_bytes: int) -> Removed:
    """Remove the oldest raw tensors of a run directory until it is not larger than ``max_bytes``, and count them in it.

    Raises:
        OSError: A file cannot be removed, or the count cannot be written.
    """
    removed = trim(run, run_files(run), max_bytes, lambda name: True)
    if removed.files:
        write_disk_limit(run, read_disk_limit(run).with_removed(removed))
    return removed


def run_files(run: str) -> Iterator[RunFile]:
    """Yield the files of a run directory."""
    for folder, _, names in os.walk(run):
        for name in names:
            path = os.path.join(folder, name)
            try:
                stat = os.lstat(path)
            except FileNotFoundError:  # it was removed meanwhile
                continue
            yield RunFile(os.path.relpath(path, run), stat.st_size, stat.st_mtime_ns)


def _is_raw(name: str) -> bool:
    return name.startswith(f"{layout.TENSORS}/") and name.endswith(".safetensors")
