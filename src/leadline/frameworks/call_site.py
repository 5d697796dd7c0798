"""Places in a script."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """A place in the script at which something is called; there is one object for each place.

    Attributes:
        instruction: The index of the call in the code.
    """

    code: CodeType
    instruction: int

    @property
    def line(self) -> int:
        """The line in the file of the code."""
        lines = (line for begin, end, line in self.code.co_lines() if begin <= self.instruction < end)
        return next(lines, None) or self.code.co_firstlineno
