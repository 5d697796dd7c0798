"""Rendering of a report as one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from leadline.errors import MissingExtraError
from leadline.reports.section import Report, Section, format_cell
from leadline.store.documents import replace_file

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from markupsafe import Markup

_TEMPLATES: Final = os.path.join(os.path.dirname(__file__), "templates")
_MAX_CELL: Final = 300
"""The maximum number of characters of a cell; the full text is its tooltip."""
_MISSING: Final = "reports need jinja2 and plotly; install them with: pip install 'leadline[ui]'"
_ESCAPES: Final = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}


def render(report: Report) -> str:
    """Render a report as a page that contains Plotly's script, the styles and all data, and loads nothing else.

    Everything that comes from the run is text: jinja2 escapes it, and figures are JSON in elements that browsers do not
    execute. A content security policy allows only the two scripts of the page, and no network access.

    Raises:
        MissingExtraError: jinja2 or plotly is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtraError(_MISSING) from error
    scripts = [get_plotlyjs(), _read("report.js")]
    page = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page.filters.update(cell=format_cell, number=_is_number, cut=_cut)
    return page.get_template("report.html").render(
        report=report,
        max_cell=_MAX_CELL,
        policy=_policy(scripts),
        style=_trusted(_read("report.css")),
        scripts=[*map(_trusted, scripts)],
        figure=_figure_json,
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
    with open(os.path.join(_TEMPLATES, name), encoding="utf-8") as file:
        return file.read()
