"""The current activity of a rule worker, in shared memory that the judge can read while the worker hangs."""

from __future__ import annotations

import mmap
import os
import struct
from typing import Final

_STRUCT: Final = struct.Struct("<qi")
_NO_RULE: Final = -1


class WorkerStatus:
    """A counter of evaluations, and the index of the rule that is being evaluated."""

    def __init__(self, descriptor: int | None = None) -> None:
        is_new = descriptor is None
        self.descriptor = os.memfd_create("leadline-status") if descriptor is None else descriptor
        if is_new:
            os.ftruncate(self.descriptor, mmap.PAGESIZE)
        self._memory = mmap.mmap(self.descriptor, mmap.PAGESIZE)
        self._count = 0
        if is_new:
            self.write(_NO_RULE)

    def write(self, rule: int) -> None:
        """Record which rule is being evaluated, by its index; -1: none."""
        self._count += 1
        _STRUCT.pack_into(self._memory, 0, self._count, rule)

    def read(self) -> tuple[int, int]:
        """Return the number of writes, and the index of the rule that is being evaluated."""
        count, rule = _STRUCT.unpack_from(self._memory, 0)
        return int(count), int(rule)

    def close(self) -> None:
        """Release the memory."""
        self._memory.close()
        os.close(self.descriptor)
