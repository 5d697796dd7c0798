"""Captures in a row at which something was seen: what is said of them holds at these steps, not between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Streak:
    """Captured steps in a row."""

    since: int
    """The train step of the first one."""
    until: int
    """The train step of the latest one."""
    captures: int = 1

    @classmethod
    def begin(cls, step: int) -> Streak:
        """Return the streak of a first capture."""
        return cls(step, step)

    def extend(self, step: int) -> None:
        """Add a capture."""
        if step > self.until:
            self.until, self.captures = step, self.captures + 1

    @property
    def steps(self) -> str:
        """The steps of the captures, as messages have them: ``at each of 3 captured steps (0 to 20)``."""
        return f"at each of {self.captures:,} captured steps ({self.since:,} to {self.until:,})"
