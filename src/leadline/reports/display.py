"""Display of a report in a notebook, section by section."""

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
    """The report of a run for display in a notebook; sections are computed from the run on demand.

    Args:
        run: The path or name of the run.
    Raises:
        RunNotFoundError: There is no such run.
    """

    def __init__(self, run: str) -> None:
        self.run = open_run(run)
        self._chapters: dict[str, Chapter] = {}

    @cached_property
    def _sources(self) -> Sources:
        return Sources(self.run)

    def chapter(self, name: str) -> Chapter:
        """Return a chapter of the report: ``training``, ``xgboost`` or ``profiling``.

        Raises:
            UnknownNameError: There is no chapter of that name, or it does not apply to the run.
        """
        if name not in self._chapters:
            chapter = CHAPTERS[name](self._sources) if name in CHAPTERS else None
            if chapter is None:
                raise UnknownNameError("chapter of this run's report", name, CHAPTERS)
            self._chapters[name] = chapter
        return self._chapters[name]

    def show(self, chapter: str, key: str) -> None:
        """Show a section: its text, charts and tables.

        Raises:
            UnknownNameError: There is no such chapter or section.
        """
        sections = {section.key: section for section in self.chapter(chapter).sections}
        if key not in sections:
            raise UnknownNameError("section", key, sections)
        _display(sections[key])

    def facts(self) -> None:
        """Show the name, outcome and path of the run."""
        run, outcome = self._sources.run, self._sources.outcome
        _display_html(f"<p><b>{escape(run.name)}</b>: {escape(outcome.text)}</p><p>{escape(run.uri)}</p>")


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
    """The heading and text of a section; texts are escaped."""
    yield f"<h{level}>{escape(section.title)}</h{level}>"
    yield from (f"<p>{escape(text)}</p>" for text in section.paragraphs)
    if section.commands:
        yield f"<pre>{escape(chr(10).join(section.commands))}</pre>"
    if section.why_empty:
        yield f"<p><i>{escape(section.why_empty)}</i></p>"


def table_html(table: Table) -> str:
    """A table; texts are escaped."""
    titles = (f"{column.title} {column.unit}".strip() for column in table.columns)
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    more = f"<p>and {table.left_out:,} more</p>" if table.left_out else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _cell(value: Any) -> str:
    return f"<td>{escape(format_cell(value))}</td>"
