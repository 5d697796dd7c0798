"""Processes that share the imports of their parent."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def fork_for_each(kinds: Sequence[str]) -> str:
    """Return each kind in a process of its own, one after the other; a single kind is returned in this process.

    This process exits after the last one.
    """
    if len(kinds) == 1:
        return kinds[0]
    for kind in kinds:
        child = os.fork()
        if not child:
            return kind
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{kind} ended with {status}")
    sys.exit(0)
