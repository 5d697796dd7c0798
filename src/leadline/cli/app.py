"""The table of commands and the typer application."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from leadline import __version__
from leadline.cli.help_page import Command, HelpContext, first_sentence


class CommandWithRun(Command):
    """A command that takes a run, for which ``-1`` is a run (the one before the latest) and not an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept ``-1`` as an argument; any other unknown option is still an error."""
        ctx.ignore_unknown_options = any(re.fullmatch(r"-\d+", argument) for argument in args)
        return super().parse_args(ctx, args)


class CommandGroup(TyperGroup):
    """All commands; the help lists them by what they are for."""

    context_class = HelpContext

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of commands, with the first sentence of each command."""
        width = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), first_sentence(self.commands[name].help)) for name in names])


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


GROUPS: Final = {
    "Run a training, or diagnose its log": {
        "run": _CommandSpec("run", "run", takes_command=True),
        "diagnose": _CommandSpec("diagnose", "diagnose"),
        "check": _CommandSpec("check", "check", takes_command=True),
        "doctor": _CommandSpec("doctor", "doctor", takes_command=True),
        "demo": _CommandSpec("demo", "demo"),
    },
    "Look at runs": {
        "show": _CommandSpec("show", "show", takes_run=True),
        "ls": _CommandSpec("ls", "ls"),
        "ui": _CommandSpec("ui", "ui"),
        "top": _CommandSpec("top", "top", takes_run=True),
        "report": _CommandSpec("report", "report", takes_run=True),
        "compare": _CommandSpec("compare", "compare", takes_run=True),
        "values": _CommandSpec("values", "values", takes_run=True),
        "tensors": _CommandSpec("tensors", "tensors", takes_run=True),
    },
    "Control a running job": {
        "stop": _CommandSpec("stop", "stop", takes_run=True),
        "set": _CommandSpec("set", "set_", takes_run=True),
        "profile": _CommandSpec("profile", "profile", takes_run=True),
    },
    "Rules and actions": {
        "rules": _CommandSpec("rules", "rules"),
        "judge": _CommandSpec("judge", "judge", takes_run=True),
        "test-actions": _CommandSpec("perform_actions", "perform_actions"),
        "trust": _CommandSpec("trust", "trust"),
    },
    "Move and delete data": {
        "export": _CommandSpec("export", "export", takes_run=True),
        "import": _CommandSpec("import_trial", "import_"),
        "upload": _CommandSpec("upload", "upload", takes_run=True),
        "rm": _CommandSpec("rm", "rm"),
        "prune": _CommandSpec("prune", "prune"),
    },
    "Serve other programs": {
        "mcp": _CommandSpec("mcp", "mcp"),
        "serve": _CommandSpec("serve", "serve"),
    },
}
"""The commands that ``leadline --help`` lists, by what they are for."""
HIDDEN: Final = {"attach": _CommandSpec("attach", "attach")}
COMMANDS: Final = {name: spec for group in (*GROUPS.values(), HIDDEN) for name, spec in group.items()}


def application(command: str | None = None) -> typer.Typer:
    """Build the command line.

    Args:
        command: The command that is going to run: no other command is imported, which saves most of the start-up
            time of a short command. With None or an unknown name, all commands are imported.
    """
    app = typer.Typer(
        name="leadline",
        cls=CommandGroup,
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
        command_class = CommandWithRun if spec.takes_run else Command
        app.command(name, cls=command_class, context_settings=settings, hidden=name in HIDDEN)(function)
    return app
