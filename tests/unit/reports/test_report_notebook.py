"""The notebook makes the report anew from the run: every cell runs, and nothing of the run is code."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from report_runs import HOSTILE, bare_run, machine_run

from leadline.errors import UnknownNameError
from leadline.reader.run import Run
from leadline.reports.display import DisplayedReport, html_of, table_html
from leadline.reports.notebook import build_notebook
from leadline.reports.report import build
from leadline.reports.section import Column, Section, Table


@pytest.mark.slow
@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_every_cell_runs_and_shows_its_section(tmp_path: Path) -> None:
    run = machine_run(tmp_path / "it's a run")
    report = build(Run(run))
    made = nbformat.reads(build_notebook(report, run).decode(), as_version=4)
    nbformat.validate(made)
    ended = NotebookClient(made, timeout=600, kernel_name="python3").execute()
    cells = [each for each in ended.cells if each.cell_type == "code"]
    sections = [each for chapter in report.chapters for each in chapter.sections]
    assert len(cells) == len(sections) + 2
    for section, cell in zip(sections, cells[1:-1], strict=True):
        assert all(each.output_type in ("display_data", "execute_result", "stream") for each in cell.outputs)
        text = json.dumps(cell.outputs)
        assert section.title in text
        assert text.count("application/vnd.plotly") >= len(section.charts)
    shown = "".join(
        each.data.get("text/html", "")
        for cell in cells
        for each in cell.outputs
        if "data" in each and "application/vnd.plotly.v1+json" not in each.data
    )
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script>alert(1)" not in shown
    assert "<img src=x" not in shown


def test_a_path_is_text_whatever_it_holds(tmp_path: Path) -> None:
    place = "/runs/'); import os; os.system('false') #\n"
    made = nbformat.reads(build_notebook(build(Run(bare_run(tmp_path / "run"))), place).decode(), as_version=4)
    code = next(each.source for each in made.cells if each.cell_type == "code")
    assert f"Shown({place!r})" in code
    assert not any(HOSTILE[0] in each.source for each in made.cells)


def test_a_section_that_is_not_there_is_named(tmp_path: Path) -> None:
    shown = DisplayedReport(bare_run(tmp_path / "run"))
    with pytest.raises(UnknownNameError, match="no chapter of this run's report named 'xgboost'"):
        shown.show("xgboost", "roc")
    with pytest.raises(UnknownNameError, match="did you mean 'losses'"):
        shown.show("training", "loses")


def test_text_and_tables_are_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    text = "".join(html_of(Section("k", hostile, (hostile,), why_empty=hostile), 4))
    text += table_html(Table((Column(hostile, "ms"),), ((hostile,), (1.5,), (None,)), hostile, 2))
    assert "<script>" not in text
    assert text.count("&lt;script&gt;") == 6
    assert "1.5" in text
    assert "and 2 more" in text
