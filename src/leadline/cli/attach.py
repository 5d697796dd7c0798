"""``leadline attach`` (hidden): started by ``leadline.watch()``; prepares a run and becomes its agent."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from leadline.errors import ConfigurationError, LeadlineError, RunNotWritableError
from leadline.launch.document import read_document
from leadline.launch.prepare import become_agent, prepare


def attach(
    pid: Annotated[int, typer.Option(help="Process id of the training.")],
    lock: Annotated[int | None, typer.Option(help="File descriptor that holds the node's lock.")] = None,
) -> None:
    """Read the configuration of a run from standard input, create the run, print its path, and monitor the process."""
    try:
        document = read_document(sys.stdin.buffer.read(), "standard input")
        if document.config is None:
            raise ConfigurationError("standard input: a process that runs already needs the field config")
        path = prepare(document.config, document.command, is_attached=True)
    except LeadlineError as error:
        _answer({"error": str(error), "is_unwritable": isinstance(error, RunNotWritableError)})
        raise typer.Exit(2) from None
    _answer({"run": path})
    _detach_standard_streams()
    if os.fork():
        os._exit(0)  # not a child of the training, which may wait for all of its children
    become_agent(path, ["--attach", str(pid), *(["--lock", str(lock)] if lock is not None else [])])


def _answer(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _detach_standard_streams() -> None:
    """Close the pipe to the calling process, so that it need not wait for the agent."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
