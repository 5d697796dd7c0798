"""The commands, by name."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from leadline import __version__
from leadline.cli import attach, change, demo, doctor, export, judge, ls, report, rules, run, show, stop, ui, windows

app = typer.Typer(
    name="leadline",
    help="Watch a machine-learning training from inside: capture, judge, and stop it before it goes aground.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


app.command("run", context_settings={"allow_interspersed_args": False})(run.run)
app.command("ls")(ls.ls)
app.command("show", cls=OfRun)(show.show)
app.command("ui")(ui.ui)
app.command("report", cls=OfRun)(report.report)
app.command("judge", cls=OfRun)(judge.judge)
app.command("rules")(rules.rules)
app.command("set", cls=OfRun)(change.change)
app.command("profile", cls=OfRun)(windows.profile)
app.command("export", cls=OfRun)(export.export)
app.command("stop", cls=OfRun)(stop.stop)
app.command("doctor", context_settings={"allow_interspersed_args": False})(doctor.doctor)
app.command("demo")(demo.demo)
app.command("attach", hidden=True)(attach.attach)
