"""Tracebacks of the script without Leadline's frames, which its patched functions put between those of others."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Final

_PACKAGE: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_PATCHES: Final = os.path.join(_PACKAGE, "frameworks", "")
"""What fails there is guarded: an error that seems to come out of it comes from frames that Keras has hidden."""
_MOST_ERRORS: Final = 100
"""Causes and contexts of an exception that are looked at."""


def hide_own_frames() -> None:
    """Let an uncaught exception be printed without Leadline's frames, unless the script prints them in its own way."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_exception


def show_own_frames() -> None:
    """Undo ``hide_own_frames``."""
    if sys.excepthook is _print_exception:
        sys.excepthook = sys.__excepthook__


def _print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    pending, known = [error], {id(error)}
    while pending:
        other = pending.pop()
        other.__traceback__ = without_own_frames(other.__traceback__)
        for related in (other.__cause__, other.__context__):
            if related is not None and id(related) not in known and len(known) < _MOST_ERRORS:
                known.add(id(related))
                pending.append(related)
    sys.__excepthook__(kind, error, without_own_frames(trace))


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without Leadline's frames; as it is if the error comes out of one of them that is no patch."""
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    kept = [entry for entry in entries if not _is_in(entry, _PACKAGE)]
    if not kept or (_is_in(entries[-1], _PACKAGE) and not _is_in(entries[-1], _PATCHES)):
        return entries[0] if entries else None
    for entry, following in zip(kept, [*kept[1:], None], strict=True):
        entry.tb_next = following
    return kept[0]


def _is_in(entry: TracebackType, folder: str) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(folder)
