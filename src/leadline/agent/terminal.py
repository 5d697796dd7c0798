"""The agent's lines in the terminal: few, on standard error, and separate from the script's own output."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from leadline.agent.run_documents import RunDocuments
from leadline.records import describe
from leadline.records.documents import ManifestDocument, WorkerDocument
from leadline.records.formatting import counted, printable, short_path
from leadline.store.upload_state import read_upload

PREFIX: Final = "leadline"
_COLORS: Final = {"finding": "\x1b[31m", "warning": "\x1b[33m", "quiet": "\x1b[2m", "plain": ""}
_RESET: Final = "\x1b[0m"
_CLEAR_TO_END: Final = "\x1b[K"
_MIN_WIDTH: Final = 40
_MAX_WIDTH: Final = 120


class Terminal:
    """Writes whole lines to a file descriptor.

    **Never fails** - a descriptor that is closed, or that has no reader any more, is ignored.
    """

    def __init__(self, descriptor: int = 2, environment: Mapping[str, str] = os.environ) -> None:
        self._descriptor = descriptor
        self._is_terminal = is_terminal(descriptor)
        self.has_color = self._is_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """The number of columns to wrap lines to."""
        columns = self._columns()
        return max(_MIN_WIDTH, min(_MAX_WIDTH, columns)) if columns else _MAX_WIDTH

    def _columns(self) -> int:
        """Return the columns of the terminal; 0 where there is none, or its width is unknown."""
        try:
            return os.get_terminal_size(self._descriptor).columns if self._is_terminal else 0
        except OSError:
            return 0

    def _to_line_start(self) -> str:
        """Return the characters that move the cursor to the start of a line without erasing the script's output.

        The script may have left the cursor behind a prompt or a progress bar. One blank less than the terminal has
        columns wraps to the next line from any column but the first; from the first it stays in the same line. In a
        file a line is ended that was not.
        """
        columns = self._columns()
        if columns:
            return " " * (columns - 1) + "\r" + _CLEAR_TO_END
        return "" if _last_byte(self._descriptor) in (b"", b"\n") else "\n"

    def message(self, text: str, style: str = "plain") -> None:
        """Write one line with the prefix ``leadline``."""
        self._write([f"{PREFIX}  {self.colorize(printable(text), style)}"])

    def warn(self, text: str) -> None:
        """Write one line as a warning."""
        self.message(text, "warning")

    def colorize(self, text: str, style: str) -> str:
        """Return the text in the color of a style, where colors are enabled."""
        color = _COLORS[style]
        return f"{color}{text}{_RESET}" if self.has_color and color else text

    def _colorize_prefix(self, line: str) -> str:
        return self.colorize(PREFIX, "quiet") + line.removeprefix(PREFIX) if line.startswith(PREFIX) else line

    def write(self, lines: list[str]) -> None:
        """Write several lines at once, so that they do not mix with the script's output."""
        if lines:
            self._write([printable(line) for line in lines])

    def _write(self, lines: list[str]) -> None:
        lines = [self._colorize_prefix(line) for line in lines]
        data = (self._to_line_start() + "\n".join(lines) + "\n").encode(errors="replace")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:  # the reader is gone; the run continues
            return


def _last_byte(descriptor: int) -> bytes:
    """Return the last byte of a file that is open for writing; nothing: it is empty, or not a file, such as a pipe."""
    try:
        size = os.fstat(descriptor).st_size  # 0 of a pipe
        if not size:
            return b""
        reading = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(reading, 1, size - 1)
    except OSError:
        return b""
    finally:
        os.close(reading)


def is_terminal(descriptor: int) -> bool:
    """Return whether a descriptor is a terminal; a closed one is not."""
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


class StartMessages:
    """Announces the run, then what its first worker captures, then how to follow and stop the run.

    Args:
        why_not_monitored: Why Leadline cannot be loaded into the job; None: it can.
    """

    def __init__(
        self, terminal: Terminal, documents: RunDocuments, manifest: ManifestDocument, *, why_not_monitored: str | None
    ) -> None:
        self.has_hinted = False
        """Whether the commands to follow and stop the run were shown."""
        self.has_announced = False
        """Whether it was shown what the first worker captures."""
        self._terminal = terminal
        self._documents = documents
        self._manifest = manifest
        self._why_not_monitored = why_not_monitored

    def announce_run(self) -> None:
        """Show the name, the directory and the configuration of the run."""
        path = short_path(self._documents.run, os.getcwd())
        name = self._manifest.name or os.path.basename(self._documents.run)
        uri = read_upload(self._documents.run).uri
        place = f"{uri}, by way of {path}" if uri else path
        if self._documents.is_secondary:
            self._terminal.message(f"run {name} → {place}   joined on {self._documents.node}")
            self.has_hinted = self.has_announced = True
            return
        rules = counted(len(self._manifest.rules), "rule")
        configuration = f"preset {self._manifest.preset}, {rules}"
        if self._why_not_monitored is not None:
            configuration = f"system metrics only: {self._why_not_monitored}"
        self._terminal.message(f"run {name} → {place}   {configuration}")
        if self._why_not_monitored is not None:
            self.hint()

    def announce_worker(self, document: WorkerDocument) -> None:
        """Show what the first worker captures, however late it comes."""
        if not self.has_announced:
            self.has_announced = True
            self._terminal.message(describe.watched(document))
            if resumed := describe.resumed(document):
                self._terminal.message(resumed)
        if not self.has_hinted:
            self.hint()

    def hint(self) -> None:
        """Show the commands to follow and stop the run."""
        self.has_hinted = True
        self._terminal.message("status: leadline show        stop: leadline stop")
