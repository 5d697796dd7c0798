"""The table of commands and the typer application."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from leadline import __version__


class CommandWithRun(TyperCommand):
    """A command that takes a run, for which ``-1`` is a run (the one before the latest) and not an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept ``-1`` as an argument; any other unknown option is still an error."""
        ctx.ignore_unknown_options = any(re.fullmatch(r"-\d+", argument) for argument in args)
        return super().parse_args(ctx, args)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"leadline {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


@dataclass(frozen=True, slots=True)
class _CommandSpec:
    module: str
    """The module's name in ``leadline.cli``."""
    function: str
    takes_run: bool = False
    takes_command: bool = False
    """Whether everything after the first positional argument is the command line of another program."""
    is_hidden: bool = False


COMMANDS: Final = {
    "run": _CommandSpec("run", "run", takes_command=True),
    "trust": _CommandSpec("trust", "trust"),
    "ls": _CommandSpec("ls", "ls"),
    "show": _CommandSpec("show", "show", takes_run=True),
    "top": _CommandSpec("top", "top", takes_run=True),
    "tensors": _CommandSpec("tensors", "tensors", takes_run=True),
    "values": _CommandSpec("values", "values", takes_run=True),
    "compare": _CommandSpec("compare", "compare", takes_run=True),
    "ui": _CommandSpec("ui", "ui"),
    "serve": _CommandSpec("serve", "serve"),
    "report": _CommandSpec("report", "report", takes_run=True),
    "judge": _CommandSpec("judge", "judge", takes_run=True),
    "diagnose": _CommandSpec("diagnose", "diagnose"),
    "mcp": _CommandSpec("mcp", "mcp"),
    "rules": _CommandSpec("rules", "rules"),
    "test-actions": _CommandSpec("perform_actions", "perform_actions"),
    "set": _CommandSpec("set", "set_", takes_run=True),
    "profile": _CommandSpec("profile", "profile", takes_run=True),
    "export": _CommandSpec("export", "export", takes_run=True),
    "import": _CommandSpec("import_trial", "import_"),
    "rm": _CommandSpec("rm", "rm"),
    "prune": _CommandSpec("prune", "prune"),
    "upload": _CommandSpec("upload", "upload", takes_run=True),
    "stop": _CommandSpec("stop", "stop", takes_run=True),
    "check": _CommandSpec("check", "check", takes_command=True),
    "doctor": _CommandSpec("doctor", "doctor", takes_command=True),
    "demo": _CommandSpec("demo", "demo"),
    "attach": _CommandSpec("attach", "attach", is_hidden=True),
}


def application(command: str | None = None) -> typer.Typer:
    """Build the command line.

    Args:
        command: The command that is going to run: no other command is imported, which saves most of the start-up
            time of a short command. With None or an unknown name, all commands are imported.
    """
    app = typer.Typer(
        name="leadline",
        help="Debug and profile machine-learning training: capture tensors, evaluate rules, stop failing runs.",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name in [command] if command in COMMANDS else COMMANDS:
        spec = COMMANDS[name]
        function = getattr(importlib.import_module(f"leadline.cli.{spec.module}"), spec.function)
        settings = {"allow_interspersed_args": False} if spec.takes_command else None
        command_class = CommandWithRun if spec.takes_run else TyperCommand
        app.command(name, cls=command_class, context_settings=settings, hidden=spec.is_hidden)(function)
    return app
