"""``leadline ls``: the runs below a folder."""

from __future__ import annotations

import time
from typing import Annotated, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.cli.console import console, number, status
from leadline.cli.run_setup import runs_root
from leadline.errors import ConfigurationError
from leadline.reader.find_runs import list_runs
from leadline.reader.summary import RuleSummary, RunSummary
from leadline.records.formatting import duration, share

_LEAST_SECONDS: Final = 1.0
_SHARE: Final = 10.0
"""A list that took so long to make is left for so many times as long."""
_MOST_FIRED: Final = 3
_MANY: Final = 500
"""Of more runs a table that is laid out for the terminal's width would take seconds: they are plain lines."""
_COLUMNS: Final = {
    "NAME": False,
    "STATUS": False,
    "STEPS": True,
    "LOSS": True,
    "RULES": False,
    "COST": True,
    "AGE": True,
}
"""Whether a column has numbers, which stand to the right."""


def ls(
    root: Annotated[str | None, typer.Argument(help="A folder of runs; default ./leadline-runs.")] = None,
    follow: Annotated[bool, typer.Option(help="Stay, and show how they go on.")] = False,
) -> None:
    """List the runs below a folder, the latest first."""
    place, terminal = runs_root(root), console()
    if not follow:
        runs = list_runs(place)
        if len(runs) > _MANY:
            typer.echo("\n".join(_lines(runs)))
        else:
            terminal.print(_table(runs, place))
        return
    if not terminal.is_terminal:
        raise ConfigurationError("--follow needs a terminal; without it the list is printed once")
    _follow(place, terminal)


def _follow(place: str, terminal: Console) -> None:
    """Show the list anew on a screen of its own, as many runs as it has lines, until Ctrl-C."""
    from rich.live import Live

    with Live(console=terminal, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            began = time.monotonic()
            live.update(_table(list_runs(place), place, most=max(1, terminal.height - 2)), refresh=True)
            time.sleep(max(_LEAST_SECONDS, _SHARE * (time.monotonic() - began)))


def _table(runs: list[RunSummary], root: str, most: int | None = None) -> RenderableType:
    """The runs, the latest first.

    Args:
        most: So many rows, and how many more there are; None: all.
    """
    if not runs:
        return Text(f"no runs below {root}; leadline run train.py makes one")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name, is_number in _COLUMNS.items():
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis")
    for each in runs[:most]:
        table.add_row(*_row(each))
    left = len(runs) - most if most is not None else 0
    return Group(table, Text(f"and {left:,} more", style="dim")) if left > 0 else table


def _lines(runs: list[RunSummary]) -> list[str]:
    """The runs as plain lines, the latest first, in columns as wide as they need to be."""
    rows = [tuple(_COLUMNS), *(tuple(map(_plain, _cells(each))) for each in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.rjust if is_number else str.ljust for is_number in _COLUMNS.values()]
    return [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _plain(text: str) -> str:
    """A name without what would move the cursor."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


def _row(run: RunSummary) -> tuple[str | Text, ...]:
    name, state, steps, loss, rules, cost, age = _cells(run)
    is_fired = any(each.findings for each in run.rules)
    return Text(name), status(state), steps, loss, Text(rules, style="red" if is_fired else "dim"), cost, age


def _cells(run: RunSummary) -> tuple[str, ...]:
    """What stands in each column."""
    steps = run.steps.get("train") or sum(run.steps.values())
    cost = share(run.cost_ratio) if run.cost_ratio is not None else "–"
    age = duration(time.time() - run.started_ns / 1e9)
    return run.name, run.status, f"{steps:,}", number(run.loss), _judged(run.rules), cost, age


def _judged(rules: tuple[RuleSummary, ...]) -> str:
    fired = [rule.name for rule in rules if rule.findings]
    if fired:
        more = f" and {len(fired) - _MOST_FIRED:,} more" if len(fired) > _MOST_FIRED else ""
        return ", ".join(fired[:_MOST_FIRED]) + more
    verdicts = [rule.verdict for rule in rules]
    counts = [(verdicts.count(word), word) for word in ("clear", "undecided")]
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "–"
