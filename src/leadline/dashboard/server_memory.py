"""Memory settings of the server: few allocator arenas, and Arrow memory returned to the system."""

from __future__ import annotations

import ctypes
from typing import Final

import pyarrow as pa

_ARENA_MAX: Final = -8
"""glibc's ``M_ARENA_MAX``."""


def share_arenas(count: int = 2) -> None:
    """Limit the number of malloc arenas: otherwise each thread retains the memory of its largest response.

    C libraries other than glibc lack this call and are left unchanged.
    """
    call = getattr(ctypes.CDLL(None), "mallopt", None)
    if call is not None:
        call(_ARENA_MAX, count)
    pa.set_memory_pool(pa.system_memory_pool())
