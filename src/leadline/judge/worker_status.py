"""What a rule worker is at this moment, in memory that the judge can read while the worker hangs."""

from __future__ import annotations

import mmap
import os
import struct
from typing import Final

_FORM: Final = struct.Struct("<qi")
_NONE: Final = -1


class WorkerStatus:
    """A counter of how often a rule was asked, and which one is being asked."""

    def __init__(self, descriptor: int | None = None) -> None:
        is_new = descriptor is None
        self.descriptor = os.memfd_create("leadline-slate") if descriptor is None else descriptor
        if is_new:
            os.ftruncate(self.descriptor, mmap.PAGESIZE)
        self._memory = mmap.mmap(self.descriptor, mmap.PAGESIZE)
        self._asked = 0
        if is_new:
            self.write(_NONE)

    def write(self, rule: int) -> None:
        """Say which rule is being asked, by its place; -1: none."""
        self._asked += 1
        _FORM.pack_into(self._memory, 0, self._asked, rule)

    def read(self) -> tuple[int, int]:
        """How often was written, and which rule is being asked."""
        asked, rule = _FORM.unpack_from(self._memory, 0)
        return int(asked), int(rule)

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()
        os.close(self.descriptor)
