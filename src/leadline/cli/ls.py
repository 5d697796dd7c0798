"""``leadline ls``: list runs."""

from __future__ import annotations

import time
from typing import Annotated, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from leadline.cli.console import console, number, status
from leadline.config.run_config import runs_root
from leadline.errors import ConfigurationError
from leadline.reader.find_runs import list_runs
from leadline.reader.summary import ListedRule, RunSummary
from leadline.records.formatting import duration, share

_MIN_SECONDS: Final = 1.0
_SHARE: Final = 10.0
"""The list stays for this many times as long as it took to build."""
_MAX_FIRED: Final = 3
_MAX_TABLE_ROWS: Final = 500
"""The layout of larger tables would take seconds: more runs are printed as plain lines."""
_COLUMNS: Final = {
    "NAME": False,
    "STATUS": False,
    "STEPS": True,
    "LOSS": True,
    "RULES": False,
    "COST": True,
    "AGE": True,
}
"""Whether a column contains numbers, which are aligned right."""


def ls(
    root: Annotated[
        str | None, typer.Argument(help="Runs directory; default: $LEADLINE_ROOT or ./leadline-runs.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Keep updating until Ctrl-C.")] = False,
) -> None:
    """List the runs of a directory, the latest first."""
    folder, terminal = runs_root(root), console()
    if not follow:
        runs = list_runs(folder)
        if len(runs) > _MAX_TABLE_ROWS:
            typer.echo("\n".join(_lines(runs)))
        else:
            terminal.print(_table(runs, folder))
        return
    if not terminal.is_terminal:
        raise ConfigurationError("--follow needs a terminal; without it the list is printed once")
    _follow(folder, terminal)


def _follow(folder: str, terminal: Console) -> None:
    """Update the list on an alternate screen, limited to its height, until Ctrl-C."""
    from rich.live import Live

    with Live(console=terminal, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            began = time.monotonic()
            live.update(_table(list_runs(folder), folder, limit=max(1, terminal.height - 2)), refresh=True)
            time.sleep(max(_MIN_SECONDS, _SHARE * (time.monotonic() - began)))


def _table(runs: list[RunSummary], root: str, limit: int | None = None) -> RenderableType:
    """The runs, the latest first.

    Args:
        limit: The maximum number of rows; a last line counts the others. None: all.
    """
    if not runs:
        return Text(f"no runs in {root}; create one with: leadline run train.py")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name, is_number in _COLUMNS.items():
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis")
    for run in runs[:limit]:
        table.add_row(*_row(run))
    left = len(runs) - limit if limit is not None else 0
    return Group(table, Text(f"and {left:,} more", style="dim")) if left > 0 else table


def _lines(runs: list[RunSummary]) -> list[str]:
    """The runs as plain lines, the latest first, in columns of minimal width."""
    rows = [tuple(_COLUMNS), *(tuple(map(_plain, _cells(run))) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.rjust if is_number else str.ljust for is_number in _COLUMNS.values()]
    return [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _plain(text: str) -> str:
    """A text without control characters."""
    return text if text.isprintable() else "".join(character if character.isprintable() else "?" for character in text)


def _row(run: RunSummary) -> tuple[str | Text, ...]:
    name, state, steps, loss, rules, overhead, age = _cells(run)
    is_fired = any(rule.findings for rule in run.rules)
    return Text(name), status(state), steps, loss, Text(rules, style="red" if is_fired else "dim"), overhead, age


def _cells(run: RunSummary) -> tuple[str, ...]:
    """The cells of a row."""
    overhead = share(run.cost_ratio) if run.cost_ratio is not None else "–"
    age = duration(time.time() - run.started_ns / 1e9)
    return run.name, run.status, f"{run.train_steps:,}", number(run.loss), _rules(run.rules), overhead, age


def _rules(rules: tuple[ListedRule, ...]) -> str:
    fired = [rule.name for rule in rules if rule.findings]
    if fired:
        more = f" and {len(fired) - _MAX_FIRED:,} more" if len(fired) > _MAX_FIRED else ""
        return ", ".join(fired[:_MAX_FIRED]) + more
    verdicts = [rule.verdict for rule in rules]
    counts = [(verdicts.count(verdict), verdict) for verdict in ("clear", "undecided")]
    return ", ".join(f"{count} {verdict}" for count, verdict in counts if count) or "–"
