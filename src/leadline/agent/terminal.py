"""The agent's lines in the terminal: few, on standard error, never in the way of the script's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

PREFIX: Final = "leadline"
_COLOURS: Final = {"found": "\x1b[31m", "warning": "\x1b[33m", "quiet": "\x1b[2m", "plain": ""}
_PLAIN: Final = "\x1b[0m"
_CLEAR_TO_END: Final = "\x1b[K"
_NARROWEST: Final = 40
_WIDEST: Final = 120


class Terminal:
    """Writes whole lines to a file descriptor; one that is closed or gone is no reason to fail."""

    def __init__(self, descriptor: int = 2, environment: Mapping[str, str] = os.environ) -> None:
        self._descriptor = descriptor
        self._is_terminal = is_terminal(descriptor)
        self.has_colour = self._is_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """Columns to wrap to."""
        columns = self._columns()
        return max(_NARROWEST, min(_WIDEST, columns)) if columns else _WIDEST

    def _columns(self) -> int:
        """Columns of the terminal; 0 where there is none, or it does not say."""
        try:
            return os.get_terminal_size(self._descriptor).columns if self._is_terminal else 0
        except OSError:
            return 0

    def _to_line_start(self) -> str:
        """What leads to the start of a line and spoils nothing.

        The script may have left the cursor behind a prompt or a progress bar. So many blanks wrap to the next line
        from anywhere but the start of one, from where they stay in theirs.
        """
        columns = self._columns()
        return " " * (columns - 1) + "\r" + _CLEAR_TO_END if columns else ""

    def say(self, text: str, tone: str = "plain") -> None:
        """One line of ours, behind our name."""
        self.write([f"{PREFIX}  {self.dye(text, tone)}"])

    def dye(self, text: str, tone: str) -> str:
        """The text in the colour of its tone, where there are colours."""
        colour = _COLOURS[tone]
        return f"{colour}{text}{_PLAIN}" if self.has_colour and colour else text

    def _dye_prefix(self, line: str) -> str:
        return self.dye(PREFIX, "quiet") + line.removeprefix(PREFIX) if line.startswith(PREFIX) else line

    def write(self, lines: list[str]) -> None:
        """Several lines in one write, so that they do not mix with the script's."""
        if not lines:
            return
        lines = [self._dye_prefix(line) for line in lines]
        data = (self._to_line_start() + "\n".join(lines) + "\n").encode(errors="replace")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:  # nobody reads it any more; the run goes on
            return


def is_terminal(descriptor: int) -> bool:
    """Whether somebody looks at it."""
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
