"""Reports in a run directory: page and notebook, replaced atomically, and never written through a symbolic link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from report_runs import bare_run, machine_run

from leadline.errors import DamagedRunError, RunNotFoundError, UnknownNameError
from leadline.reports.files import write_product


def test_page_and_notebook_are_in_the_run_and_private(tmp_path: Path) -> None:
    run = machine_run(tmp_path / "run")
    page = Path(write_product(run, "profiling"))
    assert page == tmp_path / "run" / "reports" / "profiling.html"
    assert "Job summary" in page.read_text()
    assert "Losses and metrics" not in page.read_text()
    assert sorted(os.listdir(page.parent)) == ["profiling.html", "profiling.ipynb"]
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    before = page.stat().st_ino
    write_product(run, "profiling")
    assert page.stat().st_ino != before  # replaced, not overwritten


def test_the_full_report_has_all_chapters_that_apply(tmp_path: Path) -> None:
    page = Path(write_product(bare_run(tmp_path / "run"), "report")).read_text()
    assert "Losses and metrics" in page
    assert "Job summary" in page


def test_unknown_reports_and_runs(tmp_path: Path) -> None:
    run = bare_run(tmp_path / "run")
    with pytest.raises(UnknownNameError, match="did you mean 'profiling'"):
        write_product(run, "profilling")
    with pytest.raises(RunNotFoundError):
        write_product(str(tmp_path / "nowhere"), "profiling")


def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path) -> None:
    run = bare_run(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "run" / "reports")
    with pytest.raises(DamagedRunError, match="is a symbolic link"):
        write_product(run, "profiling")
    assert os.listdir(tmp_path / "elsewhere") == []
