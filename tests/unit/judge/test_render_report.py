"""The process that renders a report for the judge: writes it, or says in one line why not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from system_scenarios import system_story

from leadline.judge.report_renderer import printing
from leadline.testing.runs import RunWriter


@pytest.mark.slow
def test_it_writes_the_page_and_the_notebook(tmp_path: Path) -> None:
    run = RunWriter(tmp_path / "run").write_all(system_story(3, seconds=5)).end().path
    ended = subprocess.run(printing(run, "profiling"), capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(each.name for each in (tmp_path / "run" / "reports").iterdir()) == [
        "profiling.html",
        "profiling.ipynb",
    ]


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        printing(str(tmp_path / "nowhere"), "profiling"), capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("leadline: there is no run at")
    assert len(ended.stderr.splitlines()) == 1


def test_the_judge_itself_holds_nothing_that_draws() -> None:
    code = "import sys, leadline.judge.judge, leadline.judge.__main__; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert {"plotly", "jinja2", "nbformat", "leadline.reports", "leadline.figures"}.isdisjoint(ended.stdout.split())
