"""``leadline report``: where the file goes to, and one clear line where it cannot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from system_scenarios import system_story

from leadline.cli import main
from leadline.testing.runs import SECOND_NS, START_NS, RunWriter


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    writer = RunWriter(tmp_path / "leadline-runs" / "one").write_all(system_story(3, seconds=8)).end()
    writer.set_status("Completed", exit_status=0, ended_ns=START_NS + 60 * SECOND_NS)
    return tmp_path


def reported(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["leadline", "report", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def test_the_latest_run_is_written_here_under_its_name(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert reported("--notebook") == 0
    said, complaints = capfd.readouterr()
    assert complaints == ""
    assert said.splitlines()[0].startswith("./one-report.html: 18 sections, ")
    assert said.splitlines()[1].startswith("./one-report.ipynb: ")
    page = (folder / "one-report.html").read_text()
    for rule in ("cpu_bottleneck", "step_outlier"):  # judged for the report: the run itself had no rules
        assert rule in page


def test_it_goes_where_it_is_told(folder: Path) -> None:
    assert reported("one", "-o", "mine.html") == 0
    assert reported("one", "-o", "only.ipynb") == 0
    (folder / "there").mkdir()
    assert reported("one", "-o", "there") == 0
    assert sorted(each for each in os.listdir(folder) if each != "leadline-runs") == [
        "mine.html",
        "only.ipynb",
        "there",
    ]
    assert os.listdir(folder / "there") == ["one-report.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("on",), "no run named 'on'"),
        (("one", "-o", "nowhere/x.html"), "-o nowhere/x.html: there is no folder nowhere"),
        (("one", "-o", "x.pdf"), "-o x.pdf: a report's name ends in .html, a notebook's in .ipynb"),
        (("-7",), "there are only 1 runs"),
        (("one", "--notebok"), "did you mean --notebook?"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    folder: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert reported(*arguments) == 2
    said, complaint = capfd.readouterr()
    assert said == ""
    assert message in complaint
    assert len(complaint.splitlines()) == 1
    assert os.listdir(folder) == ["leadline-runs"]


def test_a_report_that_cannot_be_written_leaves_the_old_one(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "x.html").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("leadline.reports.html.os.replace", full)
    assert reported("one", "-o", "x.html") == 2
    assert "no space left on device" in capfd.readouterr().err
    assert (folder / "x.html").read_text() == "old"
    assert sorted(os.listdir(folder)) == ["leadline-runs", "x.html"]


def test_a_name_that_no_file_can_have_becomes_one_that_it_can(folder: Path) -> None:
    run = folder / "leadline-runs" / "<b> ..:é"
    RunWriter(run).end()
    assert reported(str(run)) == 0
    assert [each for each in os.listdir(folder) if each.endswith(".html")] == ["b_.._é-report.html"]
