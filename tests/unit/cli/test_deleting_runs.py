"""``leadline rm`` and ``prune``: what is deleted, what is asked, and what is refused."""

from __future__ import annotations

import os
import pty
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import leadline
from leadline.cli.app import application
from leadline.cli.rm import rm
from leadline.control.deletion import delete_run
from leadline.errors import ConfigurationError, RunNotFoundError
from leadline.store.disk_limit import read_disk_limit
from leadline.store.run_state import run_bytes
from leadline.testing.runs import SECOND_NS, Capture, RawTensors, RunWriter

NOW_NS = time.time_ns()
DAY_NS = 86_400 * SECOND_NS


def write(root: Path, name: str, *, days: int = 0, is_running: bool = False) -> Path:
    """Write a run that ended some days ago."""
    writer = RunWriter(root / name, started_ns=NOW_NS - days * DAY_NS).write_all([Capture(0, {"loss": {"value": 1.0}})])
    if not is_running:
        writer.end().set_status("Completed", exit_status=0, ended_ns=NOW_NS - days * DAY_NS)
    return root / name


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEADLINE_ROOT", str(tmp_path))
    for name, days in (("old-1", 40), ("old-2", 20), ("new", 1)):
        write(tmp_path, name, days=days)
    return tmp_path


def call(*words: str) -> tuple[int, str]:
    """The exit status and the output of a command."""
    done = CliRunner().invoke(application(words[0]), list(words), standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value or 0, done.output


def left(root: Path) -> list[str]:
    return sorted(os.listdir(root))


def test_named_runs_are_listed_and_deleted(root: Path) -> None:
    status, output = call("rm", "old-1", str(root / "new"), "--yes")
    assert status == 0
    assert [line.split()[0] for line in output.splitlines()] == ["NAME", "old-1", "new", "deleted"]
    assert "deleted 2 runs (" in output
    assert left(root) == ["old-2"]


def test_a_pattern_matches_names(root: Path) -> None:
    assert call("rm", "old-*", "-y")[0] == 0
    assert left(root) == ["new"]


@pytest.mark.parametrize(
    ("answer", "status", "kept"), [("n", 1, ["new", "old-1", "old-2"]), ("y", 0, ["new", "old-2"])]
)
def test_a_question_is_asked_first(
    root: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: int, kept: list[str]
) -> None:
    master, slave = pty.openpty()
    with open(slave, encoding="utf-8") as terminal:
        os.write(master, f"{answer}\n".encode())
        monkeypatch.setattr("sys.stdin", terminal)
        assert rm(["old-1"]) == status
    os.close(master)
    assert left(root) == kept


def test_without_a_terminal_nothing_is_deleted_unasked(root: Path) -> None:
    with pytest.raises(ConfigurationError, match="add --yes"):
        call("rm", "old-1")
    assert left(root) == ["new", "old-1", "old-2"]


def test_a_running_job_is_never_deleted(root: Path) -> None:
    write(root, "running", days=50, is_running=True)
    with pytest.raises(ConfigurationError, match="running is still running; stop it first: leadline stop running"):
        call("rm", "old-1", "running", "--yes")
    assert left(root) == ["new", "old-1", "old-2", "running"], "nothing was deleted"
    assert call("prune", "--keep", "0", "--yes")[0] == 0
    assert left(root) == ["running"]


def test_what_is_no_run_is_refused(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("other")
    (folder / "precious").write_text("mine")
    with pytest.raises(RunNotFoundError, match="did you mean 'old-1'"):
        call("rm", "old1", "--yes")
    with pytest.raises(ConfigurationError, match="is a folder of runs"):
        call("rm", str(root), "--yes")
    with pytest.raises(RunNotFoundError):
        call("rm", str(folder), "--yes")
    with pytest.raises(RunNotFoundError):
        delete_run(str(folder))
    (folder / "link").symlink_to(root / "new")
    with pytest.raises(ConfigurationError, match="is a symbolic link"):
        call("rm", str(folder / "link"), "--yes")
    assert left(root) == ["new", "old-1", "old-2"]
    assert left(folder) == ["link", "precious"]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("--keep", "1"), ["new"]),
        (("--older-than", "30d"), ["new", "old-2"]),
        (("--older-than", "2w"), ["new"]),
        (("--keep", "2", "--older-than", "12h"), ["new", "old-2"]),
        (("--keep", "0", "--older-than", "30d"), ["new", "old-2"]),
        (("--keep", "7"), ["new", "old-1", "old-2"]),
    ],
)
def test_prune_deletes_ended_runs_by_number_and_age(root: Path, words: tuple[str, ...], kept: list[str]) -> None:
    status, output = call("prune", *words, "--yes")
    assert status == 0
    assert left(root) == kept
    assert ("no run to delete" in output) == (len(kept) == 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to prune by"),
        (("--keep", "-1"), "--keep must be at least 0"),
        (("--older-than", "soon"), "--older-than must be a number and a unit"),
        (("--max-disk", "much"), "--max-disk must be a size like 2GB"),
        (("--max-disk", "1GB", "--keep", "2"), "give one of them"),
    ],
)
def test_prune_refuses(root: Path, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call("prune", *words)
    assert left(root) == ["new", "old-1", "old-2"]


RAW_BYTES = 40_000


def write_raw(root: Path, name: str, *, days: int, is_running: bool = False) -> Path:
    """Write a run with four segments of raw tensors."""
    writer = RunWriter(root / name, started_ns=NOW_NS - days * DAY_NS)
    for step in range(4):
        data = bytes(RAW_BYTES)
        writer.write_all([Capture(step, {"loss": {"value": 1.0}}), RawTensors(step, {"w": ("U8", (len(data),), data)})])
    if not is_running:
        writer.end().set_status("Completed", exit_status=0, ended_ns=NOW_NS - days * DAY_NS)
    return root / name


def raw_files(run: Path) -> int:
    return len(list(run.rglob("*.safetensors")))


def test_prune_removes_raw_tensors_of_the_oldest_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_ROOT", str(tmp_path))
    running = write_raw(tmp_path, "running", days=9, is_running=True)
    oldest, old, new = (write_raw(tmp_path, f"run-{days}", days=days) for days in (8, 5, 1))
    whole = sum(run_bytes(str(run)) for run in (running, oldest, old, new))
    losses = leadline.open_run(oldest).tensor("loss").statistics("value").to_pylist()
    status, output = call("prune", "--max-disk", f"{whole // 1000 + 1}kB", "-y")
    assert (status, "they take no more" in output) == (0, True)
    status, output = call("prune", "--max-disk", f"{(whole - 4 * RAW_BYTES) // 1000 - 1}kB", "--yes")
    assert status == 0, output
    assert list(map(raw_files, (running, oldest, old, new))) == [4, 1, 2, 4]
    assert sum(run_bytes(str(run)) for run in (running, oldest, old, new)) <= whole - 4 * RAW_BYTES
    assert leadline.open_run(oldest).tensor("loss").statistics("value").to_pylist() == losses
    assert leadline.open_run(oldest).verify() == []
    assert (read_disk_limit(str(oldest)).removed_files, read_disk_limit(str(old)).removed_files) == (3, 2)
    assert "3 files of raw tensors" in call("show", str(oldest))[1]
    status, output = call("prune", "--max-disk", "1kB", "--yes")
    assert "without any raw tensors to remove" in output
    assert list(map(raw_files, (running, oldest, old, new))) == [4, 1, 1, 1]
    assert "no run that has ended has any" in call("prune", "--max-disk", "1kB", "--yes")[1]
