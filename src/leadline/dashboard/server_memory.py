"""Keeping the server's memory small: threads share their allocator's arenas, and what tables took is given back."""

from __future__ import annotations

import ctypes
from typing import Final

import pyarrow as pa

_ARENA_MAX: Final = -8
"""glibc's ``M_ARENA_MAX``."""


def share_arenas(most: int = 2) -> None:
    """Let the threads to come share so many arenas: each else keeps what its largest answer took.

    Another C library than glibc has no such call, and is left as it is.
    """
    call = getattr(ctypes.CDLL(None), "mallopt", None)
    if call is not None:
        call(_ARENA_MAX, most)
    pa.set_memory_pool(pa.system_memory_pool())
