"""``leadline ls``: list runs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Annotated, Final, TypedDict

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from leadline.cli.console import LEVEL_STYLES, console, echo_json, number
from leadline.cli.table import print_lines, table, table_width
from leadline.config.run_config import runs_root
from leadline.config.store_uri import is_uri
from leadline.errors import ConfigurationError
from leadline.reader.find_runs import list_runs
from leadline.reader.summary import RunSummary
from leadline.records.formatting import duration, iso, printable
from leadline.records.outcome_document import OutcomeDocument
from leadline.records.run_end import RUNNING
from leadline.remote.root_mirror import rebuild_catalogue

_MIN_SECONDS: Final = 1.0
_SHARE: Final = 10.0
"""The list stays for this many times as long as it took to build."""
COLUMNS: Final = ("NAME", "VERDICT", "STATUS", "STEPS", "LOSS", "AGE", "OUTCOME")
_NUMBERS: Final = ("STEPS", "LOSS", "AGE")


def ls(
    root: Annotated[
        str | None, typer.Argument(help="Runs directory or URI; default: $LEADLINE_ROOT or ./leadline-runs.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Keep updating until Ctrl-C.", show_default=False)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the catalogue of an object store from all of its runs.")
    ] = False,
) -> None:
    """List runs with their outcomes, the latest first."""
    folder, terminal = runs_root(root, can_be_remote=True), console()
    if root is not None and not is_uri(folder) and not os.path.isdir(folder):
        raise ConfigurationError(f"no such folder: {root}")
    if rebuild:
        if not is_uri(folder):
            raise ConfigurationError(f"--rebuild: {folder} is a local folder, which needs no catalogue; give a URI")
        rebuild_catalogue(folder)
    if as_json:
        echo_json([_to_dict(run) for run in list_runs(folder)])
    elif not follow:
        print_lines(_table(list_runs(folder), folder, table_width()))
    elif terminal.is_terminal:
        _follow(folder, terminal)
    else:
        raise ConfigurationError("--follow needs a terminal; without it the list is printed once")


def _follow(folder: str, terminal: Console) -> None:
    """Update the list on an alternate screen, limited to its height, until Ctrl-C."""
    from rich.live import Live

    with Live(console=terminal, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            began = time.monotonic()
            live.update(_screen(list_runs(folder), folder, terminal), refresh=True)
            time.sleep(max(_MIN_SECONDS, _SHARE * (time.monotonic() - began)))


def _screen(runs: list[RunSummary], folder: str, terminal: Console) -> RenderableType:
    limit = max(1, terminal.height - 2)
    left = len(runs) - limit
    lines = _table(runs[:limit], folder, terminal.width)
    return Group(lines, Text(f"and {left:,} more", style="dim")) if left > 0 else lines


def _table(runs: Sequence[RunSummary], root: str, width: int | None = None) -> Text:
    """The runs, the latest first, one line each.

    Args:
        width: The width to which outcomes are cut; None: nothing is cut.
    """
    if not runs:
        return Text(f"no runs in {root}; create one with: leadline run train.py")
    rows = [(*cells(run), run.outcome.brief) for run in runs]
    styles = [LEVEL_STYLES[run.outcome.level] for run in runs]
    lines = [table(COLUMNS, rows, right=_NUMBERS, styles=styles, width=width)]
    damaged = (f"{run.name}: damaged: {', '.join(run.damage)}" for run in runs if run.damage)
    lines += [Text(printable(line), style="yellow") for line in damaged]
    return Text("\n").join(lines)


def cells(run: RunSummary) -> tuple[str, ...]:
    """The cells of a row, without the outcome."""
    age = duration(time.time() - run.started_ns / 1e9)
    return (
        run.name,
        run.outcome.word,
        RUNNING.get(run.status, run.status),
        f"{run.train_steps:,}",
        number(run.loss),
        age,
    )


class ListedRun(TypedDict):
    """A run in what ``leadline ls --json`` prints."""

    name: str
    uri: str
    status: str
    outcome: OutcomeDocument
    command: list[str]
    preset: str
    started: str
    ended: str | None
    steps: dict[str, int]
    loss: float | str | None
    cost: float | None


def _to_dict(run: RunSummary) -> ListedRun:
    return {
        "name": run.name,
        "uri": run.path,
        "status": run.status,
        "outcome": run.outcome.to_dict(),
        "command": list(run.command),
        "preset": run.preset,
        "started": iso(run.started_ns),
        "ended": iso(run.ended_ns),
        "steps": run.steps,
        "loss": run.loss,
        "cost": run.cost_ratio,
    }
