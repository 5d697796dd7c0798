"""The commands, by name."""

from __future__ import annotations

from typing import Annotated

import typer

from leadline import __version__
from leadline.cli import attach, demo, doctor, judge, ls, rules, run, show, stop

app = typer.Typer(
    name="leadline",
    help="Watch a machine-learning training from inside: capture, judge, and stop it before it goes aground.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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
app.command("show")(show.show)
app.command("judge")(judge.judge)
app.command("rules")(rules.rules)
app.command("stop")(stop.stop)
app.command("doctor", context_settings={"allow_interspersed_args": False})(doctor.doctor)
app.command("demo")(demo.demo)
app.command("attach", hidden=True)(attach.attach)
