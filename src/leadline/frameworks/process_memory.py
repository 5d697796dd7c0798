"""The memory of the training process."""

from __future__ import annotations

import os
from typing import Final

_STATM: Final = "/proc/self/statm"
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def process_memory() -> dict[str, float]:
    """Return the resident bytes of this process by the name of the check; empty where they are not known."""
    try:
        with open(_STATM, "rb", buffering=0) as file:
            return {"process/rss_bytes": float(int(file.read().split()[1]) * _PAGE_BYTES)}
    except OSError:
        return {}
