"""Where the processes of training jobs run: on this machine, or on a Ray cluster."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final, Protocol

from leadline.serve.job_folder import PRIVATE_UMASK

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


class Instance(Protocol):
    """A process of a job."""

    def poll(self) -> int | None:
        """Return its exit status; None while it runs."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it and its children at once."""


class JobEngine(Protocol):
    """Starts processes of jobs; they end with the process that has started them."""

    def start(self, command: Sequence[str], environment: Mapping[str, str], folder: str, given: bytes) -> Instance:
        """Start a process, whose output is that of this process.

        Args:
            given: Its standard input.
        """


class LocalInstance:
    """A child of this process."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        given: bytes,
        output: IO[bytes] | None = None,
    ) -> None:
        """Start it in a process group of its own.

        Args:
            given: Its standard input.
            output: The file of its output; None: the output of this process.
        """
        with tempfile.TemporaryFile() as source:  # not a pipe: it has no bound, and the process need not read it
            source.write(given)
            source.seek(0)
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=source,
                stdout=output,
                stderr=output,
                process_group=0,
                umask=PRIVATE_UMASK,  # that of an actor of Ray is another one
                preexec_fn=end_with_parent,
            )

    def poll(self) -> int | None:
        """Return its exit status; None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it and its children at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


class LocalJobEngine:
    """Starts processes on this machine."""

    def start(self, command: Sequence[str], environment: Mapping[str, str], folder: str, given: bytes) -> LocalInstance:
        """Start a process in a process group of its own."""
        return LocalInstance(command, environment, folder, given)


def end_with_parent() -> None:
    """Let the kernel end a new process when its parent is killed, as the job is lost then."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
