"""``leadline report``: the path of the file, and errors in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from system_scenarios import system_scenario

from leadline.cli import main
from leadline.testing.runs import SECOND_NS, START_NS, RunWriter


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    writer = RunWriter(tmp_path / "leadline-runs" / "one").write_all(system_scenario(3, seconds=8)).end()
    writer.set_status("Completed", exit_status=0, ended_ns=START_NS + 60 * SECOND_NS)
    return tmp_path


def reported(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["leadline", "report", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def test_the_report_of_the_latest_run_is_named_after_it(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert reported("--notebook") == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out.splitlines()[0].startswith("./one-report.html: 18 sections, ")
    assert out.splitlines()[1].startswith("./one-report.ipynb: ")
    page = (folder / "one-report.html").read_text()
    for rule in ("cpu_bottleneck", "step_outlier"):  # evaluated for the report: the run itself had no rules
        assert rule in page


def test_output_paths(folder: Path) -> None:
    assert reported("one", "-o", "mine.html") == 0
    assert reported("one", "-o", "only.ipynb") == 0
    (folder / "there").mkdir()
    assert reported("one", "-o", "there") == 0
    assert sorted(name for name in os.listdir(folder) if name != "leadline-runs") == [
        "mine.html",
        "only.ipynb",
        "there",
    ]
    assert os.listdir(folder / "there") == ["one-report.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("on",), "no run named 'on'"),
        (("one", "-o", "nowhere/x.html"), "-o nowhere/x.html: no such folder: nowhere"),
        (("one", "-o", "x.pdf"), "-o x.pdf: a report must end in .html, a notebook in .ipynb"),
        (("-7",), "there are only 1 runs"),
        (("one", "--notebok"), "did you mean --notebook?"),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(
    folder: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert reported(*arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1
    assert os.listdir(folder) == ["leadline-runs"]


def test_a_failed_write_leaves_the_old_report(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "x.html").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("leadline.reports.files.os.replace", full)
    assert reported("one", "-o", "x.html") == 2
    assert "no space left on device" in capfd.readouterr().err
    assert (folder / "x.html").read_text() == "old"
    assert sorted(os.listdir(folder)) == ["leadline-runs", "x.html"]


def test_names_that_are_invalid_for_files_are_changed(folder: Path) -> None:
    run = folder / "leadline-runs" / "<b> ..:é"
    RunWriter(run).end()
    assert reported(str(run)) == 0
    assert [name for name in os.listdir(folder) if name.endswith(".html")] == ["b_.._é-report.html"]
