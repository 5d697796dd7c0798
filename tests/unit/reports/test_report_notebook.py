"""The notebook of a report: every cell runs, and no text of the run becomes code."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from report_runs import MALICIOUS, bare_run, machine_run

from leadline.errors import UnknownNameError
from leadline.reader.run import Run
from leadline.reports.display import DisplayedReport, html_of, table_html
from leadline.reports.files import build_notebook
from leadline.reports.report import build
from leadline.reports.section import Column, Section, Table


@pytest.mark.slow
@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_every_cell_runs_and_shows_its_section(tmp_path: Path) -> None:
    run = machine_run(tmp_path / "it's a run")
    report = build(Run(run))
    notebook = nbformat.reads(build_notebook(report, run).decode(), as_version=4)
    nbformat.validate(notebook)
    ended = NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    cells = [cell for cell in ended.cells if cell.cell_type == "code"]
    sections = [section for chapter in report.chapters for section in chapter.sections]
    assert len(cells) == len(sections) + 2
    for section, cell in zip(sections, cells[1:-1], strict=True):
        assert all(output.output_type in ("display_data", "execute_result", "stream") for output in cell.outputs)
        text = json.dumps(cell.outputs)
        assert section.title in text
        assert text.count("application/vnd.plotly") >= len(section.charts)
    shown = "".join(
        output.data.get("text/html", "")
        for cell in cells
        for output in cell.outputs
        if "data" in output and "application/vnd.plotly.v1+json" not in output.data
    )
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script>alert(1)" not in shown
    assert "<img src=x" not in shown


def test_a_malicious_path_is_a_string_literal(tmp_path: Path) -> None:
    path = "/runs/'); import os; os.system('false') #\n"
    notebook = nbformat.reads(build_notebook(build(Run(bare_run(tmp_path / "run"))), path).decode(), as_version=4)
    code = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert "DisplayedReport(" in code
    assert not any(MALICIOUS[0] in cell.source for cell in notebook.cells)


def test_unknown_chapters_and_sections(tmp_path: Path) -> None:
    shown = DisplayedReport(bare_run(tmp_path / "run"))
    with pytest.raises(UnknownNameError, match="no chapter of this run's report named 'xgboost'"):
        shown.show("xgboost", "roc")
    with pytest.raises(UnknownNameError, match="did you mean 'losses'"):
        shown.show("training", "loses")


def test_text_and_tables_are_escaped() -> None:
    malicious = "<script>alert(1)</script>"
    text = "".join(html_of(Section("k", malicious, (malicious,), why_empty=malicious), 4))
    text += table_html(Table((Column(malicious, "ms"),), ((malicious,), (1.5,), (None,)), malicious, 2))
    assert "<script>" not in text
    assert text.count("&lt;script&gt;") == 6
    assert "1.5" in text
    assert "and 2 more" in text
