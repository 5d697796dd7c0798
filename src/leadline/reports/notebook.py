"""A notebook that makes a report anew from its run, section by section, and may be changed."""

from __future__ import annotations

from typing import Any, Final

from leadline.errors import MissingExtraError
from leadline.reports.section import Report

_TITLE: Final = """# Leadline report

Run the cells from the top: each makes a part of the report anew from the run, which the first one names."""
_OPEN: Final = """from leadline.reports.display import Shown

report = Shown({place!r})
report.facts()"""
_FURTHER: Final = """## Further

The run itself, for whatever the report does not have."""
_RUN: Final = """run = report.run
run.scalars().slice(0, 5)"""


def build_notebook(report: Report, place: str) -> bytes:
    """The notebook of a report, without results: they come when it is run.

    Args:
        place: Where the run lies.
    Raises:
        MissingExtraError: nbformat is not installed.
    """
    try:
        import nbformat
        from nbformat import v4
    except ImportError as error:
        raise MissingExtraError("a notebook needs nbformat; install it with: pip install 'leadline[ui]'") from error
    cells = [v4.new_markdown_cell(_TITLE), v4.new_code_cell(_OPEN.format(place=place)), *_cells(report, v4)]
    cells += [v4.new_markdown_cell(_FURTHER), v4.new_code_cell(_RUN)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    text: str = nbformat.writes(made)
    return text.encode()


def _cells(report: Report, v4: Any) -> list[Any]:
    cells = []
    for chapter in report.chapters:
        cells.append(v4.new_markdown_cell(f"## {chapter.title}"))
        cells += [v4.new_code_cell(f"report.show({chapter.key!r}, {each.key!r})") for each in chapter.sections]
    return cells
