"""The process that renders a report for the judge: a complete report, or one line with the error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from system_scenarios import system_scenario

from leadline.judge.report_renderer import render_command
from leadline.testing.runs import RunWriter


@pytest.mark.slow
def test_the_report_has_a_page_and_a_notebook(tmp_path: Path) -> None:
    run = RunWriter(tmp_path / "run").write_all(system_scenario(3, seconds=5)).end().path
    ended = subprocess.run(render_command(run, "profiling"), capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(each.name for each in (tmp_path / "run" / "reports").iterdir()) == [
        "profiling.html",
        "profiling.ipynb",
    ]


def test_an_error_is_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        render_command(str(tmp_path / "nowhere"), "profiling"), capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("leadline: there is no run at")
    assert len(ended.stderr.splitlines()) == 1


def test_the_judge_itself_imports_no_plotting_library() -> None:
    code = "import sys, leadline.judge.judge, leadline.judge.__main__; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert {"plotly", "jinja2", "nbformat", "leadline.reports", "leadline.charts"}.isdisjoint(ended.stdout.split())
