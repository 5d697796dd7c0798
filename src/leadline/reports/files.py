"""Files of a report: HTML page and notebook, anywhere or in the run directory."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING, Any, Final

from leadline.errors import DamagedRunError, MissingExtraError, UnknownNameError
from leadline.reader.run import Run
from leadline.reports.report import build
from leadline.reports.section import Chapter, Report, Section, format_cell
from leadline.store import layout
from leadline.store.documents import make_subfolder, replace_file

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from markupsafe import Markup

_TEMPLATES: Final = os.path.join(os.path.dirname(__file__), "templates")
_PLOTLY: Final = "vendor/plotly-cartesian.min.js"
"""The part of Plotly that draws bars, boxes, heat maps, lines and pies, a third of the whole."""
_MAX_OPEN_ROWS: Final = 40
"""Longer tables are folded on the screen."""
_MAX_CELL: Final = 300
"""The maximum number of characters of a cell; the full text is its tooltip."""
_MISSING: Final = "reports need jinja2 and plotly; install them with: pip install 'leadline[ui]'"
_ESCAPES: Final = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
_TITLE: Final = """# Leadline report

Run the cells from the top: the first one opens the run, the others rebuild the sections of the report from it."""
_OPEN: Final = """from leadline.reports.display import DisplayedReport

report = DisplayedReport({path!r})
report.facts()"""
_FURTHER: Final = """## Further analysis

The run itself gives access to all recorded data."""
_RUN: Final = """run = report.run
run.scalars().slice(0, 5)"""
PRODUCTS: Final = {"profiling": ("profiling",), "xgboost": ("xgboost",), "report": ("training", "xgboost", "profiling")}
"""The chapters of the products."""


def _fold_empty(chapter: Chapter) -> Chapter:
    """Put the empty sections of a chapter into one at its end, those with the same reason on a line."""
    reasons: dict[str, list[str]] = {}
    for section in chapter.sections:
        if section.why_empty:
            reasons.setdefault(section.why_empty, []).append(section.title)
    if sum(map(len, reasons.values())) < 2:
        return chapter
    lines = tuple(f"{', '.join(titles)}: {why}" for why, titles in reasons.items())
    folded = Section("not-available", "Not available for this run", lines)
    return replace(chapter, sections=(*(part for part in chapter.sections if not part.why_empty), folded))


def render(report: Report) -> str:
    """Render a report as a page that contains a part of Plotly, the styles and all data, and loads nothing else.

    Everything that comes from the run is text: jinja2 escapes it, and figures are JSON in elements that browsers do not
    execute. A content security policy allows only the two scripts of the page, and no network access.

    Raises:
        MissingExtraError: jinja2 or plotly is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError(_MISSING) from error
    scripts = [_read(_PLOTLY), _read("templates/report.js")]
    page = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters.update(cell=format_cell, number=_is_number, cut=_cut)
    return page.get_template("report.html").render(
        report=replace(report, chapters=tuple(map(_fold_empty, report.chapters))),
        max_cell=_MAX_CELL,
        max_open_rows=_MAX_OPEN_ROWS,
        policy=_policy(scripts),
        style=_trusted(_read("templates/report.css")),
        scripts=[*map(_trusted, scripts)],
        figure=_figure_json,
        title=_title,
        flags=_flags,
        has_charts=any(section.charts for section in _sections(report)),
    )


def write(report: Report, path: str) -> int:
    """Write a report, completely or not at all.

    Returns:
        The size in bytes.
    """
    return write_whole(path, render(report).encode())


def write_whole(path: str, content: bytes) -> int:
    """Replace a file atomically: readers see the old or the new content, never a part."""
    with replace_file(path) as file:
        file.write(content)
    return len(content)


def _sections(report: Report) -> Iterator[Section]:
    pending = [section for chapter in report.chapters for section in chapter.sections]
    while pending:
        section = pending.pop()
        pending += section.parts
        yield section


def _figure_json(figure: go.Figure) -> Markup:
    """A figure as JSON that cannot end its HTML element."""
    from markupsafe import Markup

    text: str = figure.to_json()
    for mark, escape in _ESCAPES.items():
        text = text.replace(mark, escape)
    return Markup(text)


def _title(figure: go.Figure) -> str:
    """The title of a figure as plain text."""
    return unescape(figure.layout.title.text or "")


def _flags(figure: go.Figure) -> list[str]:
    """The findings of the numbered flags of a figure as plain text."""
    return [unescape(flag["text"]) for flag in (figure.layout.meta or {}).get("flags", ())]


def _trusted(text: str) -> Markup:
    """Mark scripts and styles of Leadline as safe; never used for data of a run."""
    from markupsafe import Markup

    return Markup(text)


def _policy(scripts: list[str]) -> str:
    """A content security policy that allows only these scripts, and no network access."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _cut(text: str, length: int) -> str:
    """Shorten a text in the middle, since names differ at both ends."""
    if len(text) <= length:
        return text
    tail = length // 3
    return f"{text[: length - tail - 1]}…{text[len(text) - tail :]}"


def _read(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def build_notebook(report: Report, path: str) -> bytes:
    """Create the notebook of a report, without outputs.

    Args:
        path: The path of the run.
    Raises:
        MissingExtraError: nbformat is not installed.
    """
    try:
        import nbformat
        from nbformat import v4
    except ImportError as error:
        raise MissingExtraError("a notebook needs nbformat; install it with: pip install 'leadline[ui]'") from error
    cells = [v4.new_markdown_cell(_TITLE), v4.new_code_cell(_OPEN.format(path=path)), *_cells(report, v4)]
    cells += [v4.new_markdown_cell(_FURTHER), v4.new_code_cell(_RUN)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    text: str = nbformat.writes(notebook)
    return text.encode()


def _cells(report: Report, v4: Any) -> list[Any]:
    cells = []
    for chapter in report.chapters:
        cells.append(v4.new_markdown_cell(f"## {chapter.title}"))
        cells += [v4.new_code_cell(f"report.show({chapter.key!r}, {section.key!r})") for section in chapter.sections]
    return cells


def write_product(path: str, product: str) -> str:
    """Write a report of a run in its current state, with its notebook, into the run directory.

    Args:
        path: The run directory.
        product: ``profiling``, ``xgboost``, or ``report`` for all chapters that apply.
    Returns:
        The path of the HTML page.
    Raises:
        UnknownNameError: There is no such report.
        RunNotFoundError: There is no such run.
        MissingExtraError: A library for rendering is not installed.
        DamagedRunError: The reports folder of the run is a symbolic link.
    """
    if product not in PRODUCTS:
        raise UnknownNameError("report", product, PRODUCTS)
    folder = os.path.join(path, layout.REPORTS)
    if os.path.islink(folder):
        raise DamagedRunError(f"{folder} is a symbolic link, which is not followed; replace it by a folder")
    report = build(Run(path), PRODUCTS[product])
    make_subfolder(folder)
    page = os.path.join(path, layout.report_page(product))
    write_whole(os.path.join(path, layout.report_notebook(product)), build_notebook(report, path))
    write(report, page)
    return page
