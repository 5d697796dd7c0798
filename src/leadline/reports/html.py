"""A report as one HTML file that opens without a network."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from leadline.errors import MissingExtraError
from leadline.reports.section import Report, Section, format_cell

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from markupsafe import Markup

_TEMPLATES: Final = os.path.join(os.path.dirname(__file__), "templates")
_MOST_IN_CELL: Final = 300
"""Characters of a cell; the others show when one points at it."""
_MISSING: Final = "reports need jinja2 and plotly; install them with: pip install 'leadline[ui]'"
_ESCAPES: Final = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}


def render(report: Report) -> str:
    """A report as a page: Plotly's script, the styles and all data within, nothing fetched from elsewhere.

    Everything that comes from the run is text: jinja2 escapes it, and figures lie as JSON in elements that no browser
    runs. A content-security policy lets the page run its own two scripts and reach nothing.

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
        most=_MOST_IN_CELL,
        policy=_policy(scripts),
        style=_own(_read("report.css")),
        scripts=[*map(_own, scripts)],
        figure=_figure_json,
        has_charts=any(section.charts for section in _sections(report)),
    )


def write(report: Report, path: str) -> int:
    """Write a report, whole or not at all.

    Returns:
        Its bytes.
    """
    return write_whole(path, render(report).encode())


def write_whole(path: str, content: bytes) -> int:
    """Put a file in its place at once: whoever opens it finds the old one or the new one, never a part."""
    folder = os.path.dirname(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".report-", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return len(content)


def _sections(report: Report) -> Iterator[Section]:
    waiting = [section for chapter in report.chapters for section in chapter.sections]
    while waiting:
        section = waiting.pop()
        waiting += section.parts
        yield section


def _figure_json(figure: go.Figure) -> Markup:
    """A figure as JSON that cannot end the element it lies in."""
    from markupsafe import Markup

    text: str = figure.to_json()
    for mark, escape in _ESCAPES.items():
        text = text.replace(mark, escape)
    return Markup(text)


def _own(text: str) -> Markup:
    """What we bring ourselves, scripts and styles: never anything of a run."""
    from markupsafe import Markup

    return Markup(text)


def _policy(scripts: list[str]) -> str:
    """A content-security policy under which these scripts run and nothing else, and nothing is fetched."""
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _cut(text: str, most: int) -> str:
    """A text of any length, cut in its middle, since names differ at both ends."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"


def _read(name: str) -> str:
    with open(os.path.join(_TEMPLATES, name), encoding="utf-8") as file:
        return file.read()
