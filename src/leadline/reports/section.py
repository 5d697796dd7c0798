"""What a report is made of: chapters of sections, with text, charts and tables, before anything draws them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import plotly.graph_objects as go

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    unit: str = ""
    """``ms``, ``%`` …; "" where the cells are text or have each their own."""


Columns = Mapping[str, Column | str]
"""For each key of the rows the column that shows it, or its title alone."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; every cell a plain value, formatted only where it is shown."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    left_out: int = 0
    """How many more rows there are, that are not shown."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure in its place."""

    figure: go.Figure
    caption: str = ""
    """A sentence below it, where the figure needs one."""
    width: Literal["full", "half", "third"] = "full"
    """How much of a line it takes on a wide screen."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with a heading: text, then charts, then tables, then smaller sections."""

    key: str
    """Its anchor: lower case letters, digits and hyphens; unique within its chapter."""
    title: str
    paragraphs: tuple[str, ...] = ()
    """Plain text; nothing in it is markup."""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    parts: tuple[Section, ...] = ()
    why_empty: str = ""
    """One line that says why there is nothing to show; "" where there is."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """Sections that belong together: ``Profiling``, ``Training`` …"""

    key: str
    title: str
    sections: tuple[Section, ...]
    paragraphs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A run as one document."""

    run: str
    """The run's name."""
    title: str
    chapters: tuple[Chapter, ...]
    facts: tuple[tuple[str, str], ...] = ()
    """What stands at its head, each with its name."""


def empty(key: str, title: str, why: str) -> Section:
    """A section of which there is nothing to show, and why."""
    return Section(key, title, why_empty=why)


def table_of(rows: Iterable[Mapping[str, Any]], columns: Columns, *, title: str = "", most: int = 100) -> Table:
    """A table of rows that are dictionaries.

    Args:
        columns: The keys to show, in this order, each with its column or its title.
        most: Rows shown, > 0; of the others it is said how many there are.
    """
    every = list(rows)
    heads = tuple(each if isinstance(each, Column) else Column(each) for each in columns.values())
    shown = tuple(tuple(_plain(row.get(key)) for key in columns) for row in every[:most])
    return Table(heads, shown, title, left_out=max(0, len(every) - most))


def format_cell(cell: Cell) -> str:
    """A cell as it is read: at most four significant digits, thousands apart, nothing as a dash."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return _spoken_float(cell)
    return cell


def _spoken_float(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def _plain(value: Any) -> Cell:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {format_cell(_plain(each))}" for key, each in value.items())
    if isinstance(value, Sequence):
        return ", ".join(format_cell(_plain(each)) for each in value)
    return str(value)
