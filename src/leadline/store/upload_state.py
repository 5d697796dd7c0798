"""``upload.json``: where a run is uploaded to, and how far that is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from leadline.records.decoding import Document
from leadline.records.formatting import counted, duration, size
from leadline.store import layout
from leadline.store.documents import read_document, write_document

DEFAULT_MAX_BYTES: Final = 2_000_000_000
TAKEN: Final = 3
"""The exit status of ``leadline.trials.earlier_training`` where a training was saved before."""
UNREADABLE: Final = 4
"""Its exit status where the store cannot be read now."""


@dataclass(frozen=True, slots=True)
class UploadState(Document):
    """Destination and state of the upload of a run."""

    uri: str = ""
    """The URI of the run; "": it is not uploaded."""
    is_complete: bool = False
    """Whether the run has ended and everything was uploaded."""
    pending_files: int = 0
    pending_bytes: int = 0
    uploaded_bytes: int = 0
    behind_since_ns: int | None = None
    """Since when something waits for its upload; None: nothing does."""
    error: str = ""
    """Why the last attempt failed; "": it succeeded."""
    max_bytes: int = DEFAULT_MAX_BYTES
    """The bound of the spool."""
    removed_files: int = 0
    """The number of files with raw tensors that were removed from the spool after their upload."""
    removed_bytes: int = 0
    lost_files: int = 0
    """The number of files with raw tensors that were removed from the spool before their upload."""
    lost_bytes: int = 0
    node: str = ""
    """The node whose run directory this is, in a run that nodes join through the store; "": none can join."""

    @property
    def is_joint(self) -> bool:
        """Whether each node of the run has a run directory of its own, and they meet in the store."""
        return bool(self.node)

    def describe(self, now_ns: int) -> str:
        """Return the state in one line: ``s3://bucket/run: 3 files (2 MB) not uploaded for 12 s: …``."""
        return "; ".join([self._progress(now_ns), *self._removals()])

    @property
    def warning(self) -> str:
        """What was lost; empty: nothing."""
        if not self.lost_files:
            return ""
        lost = f"{counted(self.lost_files, 'file')} of raw tensors ({size(self.lost_bytes)})"
        return f"{lost} dropped before the upload: the spool had reached {size(self.max_bytes)} (--spool-max)"

    def _removals(self) -> list[str]:
        removed = f"{counted(self.removed_files, 'file')} of raw tensors ({size(self.removed_bytes)})"
        lines = [f"{removed} removed from the spool after their upload"] if self.removed_files else []
        return [*lines, self.warning] if self.lost_files else lines

    def _progress(self, now_ns: int) -> str:
        if self.is_complete:
            return f"{self.uri}: complete"
        if not self.pending_files:
            return f"{self.uri}: {self.error}" if self.error else f"{self.uri}: up to date"
        seconds = max(0.0, (now_ns - (self.behind_since_ns or now_ns)) / 1e9)
        waiting = f"{counted(self.pending_files, 'file')} ({size(self.pending_bytes)})"
        problem = f": {self.error.removeprefix(f'{self.uri}: ')}" if self.error else ""
        return f"{self.uri}: {waiting} not uploaded for {duration(seconds)}{problem}"


def read_upload(run: str) -> UploadState:
    """Read the state of the upload of a run; the default: it is not uploaded."""
    return UploadState.from_dict(read_document(os.path.join(run, layout.UPLOAD)))


def write_upload(run: str, state: UploadState) -> None:
    """Replace the state of the upload of a run.

    Raises:
        OSError: It could not be written.
    """
    write_document(os.path.join(run, layout.UPLOAD), state)
