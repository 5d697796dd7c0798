"""The commands, by name."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from leadline import __version__


class OfRun(TyperCommand):
    """A command on a run, of which ``-1`` is the one before the latest and no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``-1`` for what it is; what else begins with a dash must be known as ever."""
        ctx.ignore_unknown_options = any(re.fullmatch(r"-\d+", each) for each in args)
        return super().parse_args(ctx, args)


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"leadline {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


@dataclass(frozen=True, slots=True)
class _Command:
    module: str
    """In ``leadline.cli``."""
    function: str
    is_of_run: bool = False
    ends_with_command: bool = False
    """Whether what follows the first word that is no option is somebody else's command line."""
    is_hidden: bool = False


COMMANDS: Final = {
    "run": _Command("run", "run", ends_with_command=True),
    "ls": _Command("ls", "ls"),
    "show": _Command("show", "show", is_of_run=True),
    "ui": _Command("ui", "ui"),
    "report": _Command("report", "report", is_of_run=True),
    "judge": _Command("judge", "judge", is_of_run=True),
    "rules": _Command("rules", "rules"),
    "set": _Command("set", "set_", is_of_run=True),
    "profile": _Command("profile", "profile", is_of_run=True),
    "export": _Command("export", "export", is_of_run=True),
    "stop": _Command("stop", "stop", is_of_run=True),
    "doctor": _Command("doctor", "doctor", ends_with_command=True),
    "demo": _Command("demo", "demo"),
    "attach": _Command("attach", "attach", is_hidden=True),
}


def application(wanted: str | None = None) -> typer.Typer:
    """The command line.

    Args:
        wanted: The one command that is meant: no other is imported, which spares most of a short command's time. What
            is none, or None: all.
    """
    app = typer.Typer(
        name="leadline",
        help="Watch a machine-learning training from inside: capture, judge, and stop it before it goes aground.",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name in [wanted] if wanted in COMMANDS else COMMANDS:
        each = COMMANDS[name]
        function = getattr(importlib.import_module(f"leadline.cli.{each.module}"), each.function)
        settings = {"allow_interspersed_args": False} if each.ends_with_command else None
        kind = OfRun if each.is_of_run else TyperCommand
        app.command(name, cls=kind, context_settings=settings, hidden=each.is_hidden)(function)
    return app
