"""Reports in a run: page and notebook, made anew, and never through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from report_runs import bare_run, machine_run

from leadline.errors import DamagedRunError, RunNotFoundError, UnknownNameError
from leadline.reports.run_reports import print_product


def test_page_and_notebook_lie_in_the_run_and_are_private(tmp_path: Path) -> None:
    run = machine_run(tmp_path / "run")
    page = Path(print_product(run, "profiling"))
    assert page == tmp_path / "run" / "reports" / "profiling.html"
    assert "Job summary" in page.read_text()
    assert "Losses and metrics" not in page.read_text()
    assert sorted(os.listdir(page.parent)) == ["profiling.html", "profiling.ipynb"]
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    before = page.stat().st_ino
    print_product(run, "profiling")
    assert page.stat().st_ino != before  # replaced, not written over


def test_the_whole_report_has_all_that_applies(tmp_path: Path) -> None:
    page = Path(print_product(bare_run(tmp_path / "run"), "report")).read_text()
    assert "Losses and metrics" in page
    assert "Job summary" in page


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    run = bare_run(tmp_path / "run")
    with pytest.raises(UnknownNameError, match="did you mean 'profiling'"):
        print_product(run, "profilling")
    with pytest.raises(RunNotFoundError):
        print_product(str(tmp_path / "nowhere"), "profiling")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    run = bare_run(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "run" / "reports")
    with pytest.raises(DamagedRunError, match="is a link"):
        print_product(run, "profiling")
    assert os.listdir(tmp_path / "elsewhere") == []
