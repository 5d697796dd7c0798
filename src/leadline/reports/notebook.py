"""A notebook that rebuilds a report from its run, section by section."""

from __future__ import annotations

from typing import Any, Final

from leadline.errors import MissingExtraError
from leadline.reports.section import Report

_TITLE: Final = """# Leadline report

Run the cells from the top: the first one opens the run, the others rebuild the sections of the report from it."""
_OPEN: Final = """from leadline.reports.display import DisplayedReport

report = DisplayedReport({path!r})
report.facts()"""
_FURTHER: Final = """## Further analysis

The run itself gives access to all recorded data."""
_RUN: Final = """run = report.run
run.scalars().slice(0, 5)"""


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
