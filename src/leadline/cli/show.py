"""``leadline show``: one run, as a page of text or as JSON."""

from __future__ import annotations

import json
import time
from typing import Annotated, Final

import typer
from rich.console import Console

import leadline
from leadline.analysis.digest import Digest
from leadline.analysis.overview import overview
from leadline.cli.console import console
from leadline.cli.run_page import page
from leadline.errors import DamagedRunError
from leadline.reader.run import Run
from leadline.records.formatting import counted
from leadline.records.names import JOB_ENDED

_LEAST_SECONDS: Final = 0.5
_SHARE: Final = 10.0
"""A page that took so long to make is left for so many times as long."""
_QUIET_SECONDS: Final = 5.0
"""Where nobody looks (a pipe), a line is written at most so often."""


def show(
    run: Annotated[
        str | None, typer.Argument(help="A run's name or path; default: the latest; -1 the one before.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    follow: Annotated[bool, typer.Option(help="Stay, and show how it goes on.")] = False,
    verify: Annotated[bool, typer.Option(help="Read every part and say what is damaged.")] = False,
) -> None:
    """Show a run: how it stands, what the rules found, what was captured."""
    found = leadline.open_run(run)
    if verify:
        _verify(found)
        return
    if as_json:
        typer.echo(json.dumps(overview(found), indent=2, ensure_ascii=False))
        return
    terminal, digest = console(), Digest(found)
    if follow:
        _follow(digest, terminal)
    terminal.print(page(digest, terminal.width))


def _follow(digest: Digest, terminal: Console) -> None:
    """Show it anew until it is over: on a screen of its own, which goes when the run ends; a line at times in a pipe.

    Only what is new is read; a large page comes less often, so that looking at a run costs a tenth of a core at most.
    """
    if not terminal.is_terminal:
        _follow_in_lines(digest, terminal)
        return
    from rich.live import Live

    with Live(console=terminal, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            began = time.monotonic()
            live.update(page(digest, terminal.width), refresh=True)
            if digest.run.status in JOB_ENDED:
                break
            time.sleep(max(_LEAST_SECONDS, _SHARE * (time.monotonic() - began)))
            _read_on(digest)
    _read_on(digest)


def _follow_in_lines(digest: Digest, terminal: Console) -> None:
    from leadline.cli.run_page import headline

    last, told_at = "", 0.0
    while digest.run.status not in JOB_ENDED:
        now = time.monotonic()
        if now - told_at >= _QUIET_SECONDS:
            line = headline(overview(digest.run))
            if line.plain != last:
                terminal.print(line, soft_wrap=True)
            last, told_at = line.plain, now
        time.sleep(_LEAST_SECONDS)
        _read_on(digest)
    _read_on(digest)


def _read_on(digest: Digest) -> None:
    digest.run.refresh()
    digest.refresh()


def _verify(run: Run) -> None:
    damage = run.verify()
    if damage:
        raise DamagedRunError(f"{counted(len(damage), 'part')} of {run.name} cannot be read: {'; '.join(damage)}")
    console().print(f"{run.name}: every part is whole")
