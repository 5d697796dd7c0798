"""``leadline attach`` (hidden): started by ``leadline.watch()``; prepares a run and becomes its agent."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import msgspec
import typer

from leadline.config.run_config import RunConfig
from leadline.errors import LeadlineError, RunNotWritableError
from leadline.launch.prepare import become_agent, prepare


def attach(
    pid: Annotated[int, typer.Option(help="Process id of the training.")],
    lock: Annotated[int | None, typer.Option(help="File descriptor that holds the node's lock.")] = None,
) -> None:
    """Read a run configuration as JSON from standard input, create the run, print its path, and monitor the process."""
    given: dict[str, Any] = json.loads(sys.stdin.read())
    try:
        path = prepare(msgspec.convert(given["config"], RunConfig), given["command"], is_attached=True)
    except (LeadlineError, msgspec.ValidationError) as error:
        _answer({"error": str(error), "is_unwritable": isinstance(error, RunNotWritableError)})
        raise typer.Exit(2) from None
    _answer({"run": path})
    _detach_standard_streams()
    if os.fork():
        os._exit(0)  # not a child of the training, which may wait for all of its children
    become_agent(path, ["--attach", str(pid), *(["--lock", str(lock)] if lock is not None else [])])


def _answer(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _detach_standard_streams() -> None:
    """Close the pipe to the calling process, so that it need not wait for the agent."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
