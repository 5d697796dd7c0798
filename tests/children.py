"""The processes that a test has started."""

from __future__ import annotations

from contextlib import suppress

import psutil


def running_children(module: str) -> list[psutil.Process]:
    """Return the child processes of this one that run a module.

    Those that have ended and are not reaped, as by an earlier test, are none of them.
    """
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            found += [child] if module in child.cmdline() else []
    return found
