"""``leadline attach`` (hidden): what ``leadline.watch()`` starts; prepares a run and becomes its agent."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import msgspec
import typer

from leadline.cli.prepare import Wishes, become_agent, prepare
from leadline.errors import ConfigurationError


def attach(pid: Annotated[int, typer.Option(help="The process that trains.")]) -> None:
    """Read wishes as JSON from standard input, make the run, answer with its path, and watch the process."""
    given: dict[str, Any] = json.loads(sys.stdin.read())
    command = given.pop("command")
    try:
        wishes = msgspec.convert(given, Wishes)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"leadline.watch(): {error}") from None
    path = prepare(wishes, command)
    sys.stdout.write(path + "\n")
    sys.stdout.flush()
    _let_go_of_standard_output()
    become_agent(path, ["--attach", str(pid)])


def _let_go_of_standard_output() -> None:
    """The pipe to the process that asked ends here, so that it need not wait for us."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
