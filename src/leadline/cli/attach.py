"""``leadline attach`` (hidden): what ``leadline.watch()`` starts; prepares a run and becomes its agent."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import msgspec
import typer

from leadline.cli.run_setup import RunOptions, become_agent, prepare
from leadline.errors import LeadlineError


def attach(
    pid: Annotated[int, typer.Option(help="The process that trains.")],
    lock: Annotated[int | None, typer.Option(help="A descriptor that holds the node's lock.")] = None,
) -> None:
    """Read wishes as JSON from standard input, make the run, answer with its path, and watch the process."""
    given: dict[str, Any] = json.loads(sys.stdin.read())
    command = given.pop("command")
    try:
        path = prepare(msgspec.convert(given, RunOptions), command)
    except (LeadlineError, msgspec.ValidationError) as error:
        _answer({"error": str(error)})
        raise typer.Exit(2) from None
    _answer({"run": path})
    _let_go_of_standard_output()
    if os.fork():
        os._exit(0)  # the agent is nobody's child: the training may wait for its own
    become_agent(path, ["--attach", str(pid), *(["--lock", str(lock)] if lock is not None else [])])


def _answer(said: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def _let_go_of_standard_output() -> None:
    """The pipe to the process that asked ends here, so that it need not wait for us."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
