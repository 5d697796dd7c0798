"""What rules print, in the terminal: few lines, and no control characters."""

from __future__ import annotations

import os
import threading
from typing import Final

from leadline.records.formatting import printable

_MAX_LINES: Final = 40
_MAX_CHARACTERS: Final = 300
_CHUNK_BYTES: Final = 1 << 16
_LAST_SECONDS: Final = 0.2


class RuleOutput:
    """A pipe for what a rule worker prints, and a thread that shows the first lines of it on standard error.

    The rest is read and dropped: a rule that prints at every step neither floods the terminal of the training nor
    waits for it.

    Attributes:
        writing: The end of the pipe for the worker.
    """

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        self._rule, self._left = "", _MAX_LINES
        self._thread = threading.Thread(target=self._copy, name="leadline-rule-output", daemon=True)

    def start(self) -> None:
        """Start to read; the worker has its end of the pipe."""
        os.close(self.writing)
        self._thread.start()

    def begin(self, rule: str) -> None:
        """Show lines again, as those of a rule."""
        self._rule, self._left = rule, _MAX_LINES

    def finish(self) -> None:
        """Wait briefly for the last lines; a process that the rule has started may keep the pipe open."""
        self._thread.join(_LAST_SECONDS)

    def _copy(self) -> None:
        rest = b""
        while data := os.read(self._reading, _CHUNK_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[: 4 * _MAX_CHARACTERS]
            for line in lines:
                self._show(line)
        self._show(rest)
        os.close(self._reading)

    def _show(self, line: bytes) -> None:
        if not line.strip() or self._left < 0:
            return
        self._left -= 1
        text = printable(line[: 4 * _MAX_CHARACTERS].decode(errors="replace"))[:_MAX_CHARACTERS]
        prefix = f"leadline  rule {self._rule}: "
        shown = f"{prefix}{text}" if self._left >= 0 else f"{prefix}(more output is not shown)"
        try:
            os.write(2, f"{shown}\n".encode(errors="replace"))
        except OSError:  # the terminal is gone
            self._left = -1
