"""``leadline run``: watch a command."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import typer

from leadline.cli.run_setup import RunOptions, become_agent, prepare
from leadline.errors import ConfigurationError, closest


def run(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="What to run; may begin with a .py file. All that follows is the command's own."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The run's name; default: script and time.")] = None,
    out: Annotated[str | None, typer.Option(help="The folder below which runs stand.")] = None,
    config: Annotated[
        str | None, typer.Option(help="A configuration file, or a run to repeat; default: ./leadline.toml.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="light, standard, full, sagemaker, or one of leadline.toml.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="The share of step time for what preset and rules ask: 2% or off.")
    ] = None,
    capture: Annotated[
        list[str] | None, typer.Option(help="COLLECTION[:key=value,…], for example gradients:every=10.")
    ] = None,
    rule: Annotated[list[str] | None, typer.Option(help="[AS=]NAME[:key=value,…]; also file.py:Class.")] = None,
    no_rule: Annotated[list[str] | None, typer.Option(help="Leave a rule out.")] = None,
    no_default_rules: Annotated[bool, typer.Option("--no-default-rules", help="Leave the preset's rules out.")] = False,
    on: Annotated[
        list[str] | None, typer.Option(help="RULE[@status]=ACTION[:TARGET][,key=value,…], for example *=stop_training.")
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="KIND[:at=STEP|TIME|start|end,for=N|SECONDS]: detailed, cprofile, pyinstrument, dataloader."),
    ] = None,
    interval_ms: Annotated[
        int | None, typer.Option(help="How often the machine is sampled: 100, 200, 500, 1000, 5000 or 60000.")
    ] = None,
) -> None:
    """Watch a command: capture, judge and, where asked, stop it.

    Ends with the command's own exit status, or 10 when a rule's action stopped it.
    """
    if not command:
        raise ConfigurationError("nothing to run; give a command: leadline run train.py")
    launched = resolve_command(command)
    if os.environ.get("LEADLINE_DISABLED", "") not in ("", "0"):
        os.execvp(launched[0], launched)
    wishes = RunOptions(
        name=name,
        out=out,
        config=config,
        preset=preset,
        capture=tuple(capture or ()),
        rules=tuple(rule or ()),
        without=tuple(no_rule or ()),
        no_default_rules=no_default_rules,
        on=tuple(on or ()),
        profile=tuple(profile or ()),
        interval_ms=interval_ms,
        budget=budget,
    )
    become_agent(prepare(wishes, launched), ["--", *launched])


def resolve_command(command: list[str]) -> list[str]:
    """The command as it will be launched: a script gets this Python in front.

    Raises:
        ConfigurationError: There is no such script or program.
    """
    first = command[0]
    if first.endswith(".py"):
        if not os.path.isfile(first):
            raise ConfigurationError(f"there is no script {first!r}{_nearest_script(first)}")
        return [sys.executable, *command]
    if shutil.which(first) is None:
        found = f"{first!r} is a file that cannot be executed" if os.path.exists(first) else f"no command {first!r}"
        script = f"; for a script of Python: leadline run {first}.py" if os.path.isfile(first + ".py") else ""
        raise ConfigurationError(f"{found}{script}")
    return command


def _nearest_script(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        return f": there is no folder {folder!r}"
    nearest = closest(os.path.basename(path), [each for each in os.listdir(folder) if each.endswith(".py")])
    return f"; did you mean {os.path.join(os.path.dirname(path), nearest)!r}?" if nearest else ""
