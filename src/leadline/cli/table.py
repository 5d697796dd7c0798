"""Tables with one line per row, for terminals and pipes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import typer
from rich.text import Text

from leadline.cli.console import console
from leadline.records.formatting import printable

_MIN_LAST_WIDTH: Final = 20
_GAP: Final = "  "


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    styles: Sequence[str] = (),
    width: int | None = None,
) -> Text:
    """Format rows with aligned columns. Only the last column is ever cut.

    Args:
        columns: The titles.
        rows: The cells of each row.
        right: The titles of the columns that are aligned to the right.
        styles: The style of the last cell of each row.
        width: The width to which the last column is cut; None: it is not cut.
    """
    cells = [tuple(map(printable, row)) for row in (columns, *rows)]
    *widths, last_width = (max(map(len, column)) for column in zip(*cells, strict=True))
    room = None if width is None else max(_MIN_LAST_WIDTH, width - sum(widths) - len(_GAP) * len(widths))
    widths.append(last_width if columns[-1] in right else 0)
    lines = []
    for row, style in zip(cells, ("dim", *(styles or [""] * len(rows))), strict=True):
        aligned = [
            cell.rjust(size) if title in right else cell.ljust(size)
            for title, cell, size in zip(columns, row, widths, strict=True)
        ]
        start, last = "".join(f"{cell}{_GAP}" for cell in aligned[:-1]), cut(aligned[-1], room)
        lines.append(Text(start if last else start.rstrip()).append(last, style=style))
    lines[0].stylize("dim")
    return Text("\n").join(lines)


def cut(text: str, width: int | None) -> str:
    """Shorten a text to a width; None: not at all."""
    return text if width is None or len(text) <= width else f"{text[: width - 1]}…"


def table_width() -> int | None:
    """The width of the terminal; None in a pipe, where nothing is cut."""
    terminal = console()
    return terminal.width if terminal.is_terminal else None


def print_lines(text: Text) -> None:
    """Print lines, in colour on a terminal and as plain text elsewhere."""
    terminal = console()
    if terminal.is_terminal:
        terminal.print(text, no_wrap=True, overflow="ignore", crop=False)
    else:
        typer.echo(text.plain)
