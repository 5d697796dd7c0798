"""A report in a notebook: its sections, shown one by one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from html import escape
from typing import Any

from leadline.errors import UnknownNameError
from leadline.reader.run import open_run
from leadline.reports.report import CHAPTERS
from leadline.reports.section import Chapter, Section, Table, format_cell
from leadline.reports.sources import Sources


class DisplayedReport:
    """A run whose report is shown section by section; everything is computed from the run when it is asked for.

    Args:
        place: The run's path or name.
    Raises:
        RunNotFoundError: There is no such run.
    """

    def __init__(self, place: str) -> None:
        self.run = open_run(place)
        self._made: dict[str, Chapter] = {}

    @cached_property
    def _sources(self) -> Sources:
        return Sources(self.run)

    def chapter(self, name: str) -> Chapter:
        """A chapter of the report: ``training``, ``xgboost`` or ``profiling``.

        Raises:
            UnknownNameError: There is none of that name, or it does not apply to the run.
        """
        if name not in self._made:
            made = CHAPTERS[name](self._sources) if name in CHAPTERS else None
            if made is None:
                raise UnknownNameError("chapter of this run's report", name, CHAPTERS)
            self._made[name] = made
        return self._made[name]

    def show(self, chapter: str, key: str) -> None:
        """Show a section: its text, charts and tables.

        Raises:
            UnknownNameError: There is no such chapter or section.
        """
        sections = {each.key: each for each in self.chapter(chapter).sections}
        if key not in sections:
            raise UnknownNameError("section", key, sections)
        _display(sections[key])

    def facts(self) -> None:
        """Show the run's name, status and where it lies."""
        said = self._sources.said
        _display_html(f"<p><b>{escape(said['name'])}</b>: {escape(said['status'])}, {escape(said['uri'])}</p>")


def _display(section: Section, level: int = 4) -> None:
    from IPython.display import display

    _display_html("".join(html_of(section, level)))
    for chart in section.charts:
        display(chart.figure)
    if section.tables:
        _display_html("".join(map(table_html, section.tables)))
    for part in section.parts:
        _display(part, level + 1)


def _display_html(text: str) -> None:
    from IPython.display import HTML, display

    display(HTML(text))


def html_of(section: Section, level: int) -> Iterator[str]:
    """Heading and text of a section; all that comes from a run is escaped."""
    yield f"<h{level}>{escape(section.title)}</h{level}>"
    yield from (f"<p>{escape(each)}</p>" for each in section.paragraphs)
    if section.why_empty:
        yield f"<p><i>{escape(section.why_empty)}</i></p>"


def table_html(table: Table) -> str:
    """A table; all that comes from a run is escaped."""
    titles = (f"{each.title} {each.unit}".strip() for each in table.columns)
    head = "".join(f"<th>{escape(each)}</th>" for each in titles)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    more = f"<p>and {table.left_out:,} more</p>" if table.left_out else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _cell(value: Any) -> str:
    return f"<td>{escape(format_cell(value))}</td>"
