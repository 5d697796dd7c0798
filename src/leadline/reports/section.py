"""The parts of a report, independent of their rendering: chapters and sections with text, charts and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from leadline.records.formatting import significant

if TYPE_CHECKING:
    import plotly.graph_objects as go

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    unit: str = ""
    """``ms``, ``%`` …; empty for text and for cells with different units."""


Columns = Mapping[str, Column | str]
"""The column of each key of the rows, or only its title."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain values, which are formatted by the renderer."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    left_out: int = 0
    """The number of rows that are not shown."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with its caption and width."""

    figure: go.Figure
    caption: str = ""
    """A sentence below the figure, if it needs one."""
    width: Literal["full", "half", "third"] = "full"
    """The share of the page width on a wide screen."""
    choice: str = ""
    """What distinguishes it from the others of its section, where a live page shows one of them at a time."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with a heading: text, then charts, then tables, then subsections."""

    key: str
    """The anchor: lower-case letters, digits and hyphens; unique within the chapter."""
    title: str
    paragraphs: tuple[str, ...] = ()
    """Plain text without markup."""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    parts: tuple[Section, ...] = ()
    why_empty: str = ""
    """The reason why the section is empty, in one line; "" if it is not."""
    commands: tuple[str, ...] = ()
    """Shell commands below the text."""

    @property
    def choices(self) -> tuple[str, ...]:
        """What a live page offers to choose its chart by; (): all charts are shown."""
        choices = tuple(chart.choice for chart in self.charts)
        return choices if len(choices) > 1 and all(choices) else ()


@dataclass(frozen=True, slots=True)
class Chapter:
    """A group of sections: ``Profiling``, ``Training`` …"""

    key: str
    title: str
    sections: tuple[Section, ...]
    paragraphs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a run."""

    run: str
    """The name of the run."""
    title: str
    chapters: tuple[Chapter, ...]
    facts: tuple[tuple[str, str], ...] = ()
    """The names and values at the top."""
    outcome: tuple[str, ...] = ()
    """The first lines: outcome, cause and advice, where the time went, what was not evaluated."""


def empty(key: str, title: str, why: str) -> Section:
    """An empty section with the reason."""
    return Section(key, title, why_empty=why)


def table_of(rows: Iterable[Mapping[str, Any]], columns: Columns, *, title: str = "", limit: int = 100) -> Table:
    """Create a table from dictionaries.

    Args:
        columns: The keys to show, in this order, with their columns or titles.
        limit: The maximum number of rows, > 0; the others are counted in ``left_out``.
    """
    all_rows = list(rows)
    header = tuple(column if isinstance(column, Column) else Column(column) for column in columns.values())
    shown = tuple(tuple(_plain(row.get(key)) for key in columns) for row in all_rows[:limit])
    return Table(header, shown, title, left_out=max(0, len(all_rows) - limit))


def format_cell(cell: Cell) -> str:
    """Format a cell: three significant digits, thousands separators, None as a dash."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return significant(cell)
    return cell


def plain_prose(text: str) -> str:
    """Return a text of the documentation without the marks of code."""
    return text.replace("``", "")


def format_value(value: Any) -> str:
    """Format any value as text: ``key value`` for each item of a mapping, the items of a sequence."""
    return format_cell(_plain(value))


def _plain(value: Any) -> Cell:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {format_value(item)}" for key, item in value.items())
    if isinstance(value, Sequence):
        return ", ".join(format_value(item) for item in value)
    return str(value)
