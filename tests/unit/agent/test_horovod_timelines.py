"""The copy of Horovod's timeline: growing, limited, and restarted with the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.agent import horovod
from leadline.agent.horovod import HorovodTimelines
from leadline.records.documents import WorkerDocument
from leadline.store import layout

WORKERS = {name: WorkerDocument(name, "here", pid) for name, pid in (("rank0-7", 7), ("rank1-8", 8))}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Two processes that name one file, and one that names none."""
    for pid, said in ((7, "HOROVOD_TIMELINE=t.json"), (8, "HOROVOD_TIMELINE=t.json"), (9, "HOME=/")):
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "environ").write_bytes(b"A=1\0" + said.encode() + b"\0")
        (folder / "cwd").symlink_to(tmp_path)
    (tmp_path / "run").mkdir()
    return tmp_path / "proc"


def followed(proc: Path, started_ns: int = 0) -> HorovodTimelines:
    return HorovodTimelines(str(proc.parent / "run"), "here", started_ns, proc=str(proc))


def copy(proc: Path, ordinal: int = 1, worker: str = "rank0-7") -> Path:
    return proc.parent / "run" / layout.horovod(worker) / layout.horovod_copy(ordinal)


def test_a_timeline_is_copied_once_for_all_processes_that_name_it(proc: Path) -> None:
    timelines, file = followed(proc), proc.parent / "t.json"
    assert timelines.poll(WORKERS) == []
    assert not copy(proc).exists()
    for text in ("[\n", '{"ph"', ': "M"},\n'):
        with open(file, "a") as growing:
            growing.write(text)
        assert timelines.poll(WORKERS) == []
        assert copy(proc).read_text() == file.read_text()
    assert not copy(proc, worker="rank1-8").exists()
    clock = json.loads((copy(proc).parent / layout.horovod_clock(1)).read_text())
    assert (clock["bytes"], clock["modified_ns"]) == (file.stat().st_size, file.stat().st_mtime_ns)
    assert copy(proc).stat().st_mode & 0o777 == 0o600


def test_a_restarted_file_gets_another_copy(proc: Path) -> None:
    timelines, file = followed(proc), proc.parent / "t.json"
    file.write_text("[\nfirst,\n")
    timelines.poll(WORKERS)
    file.write_text("[\n2,\n")
    timelines.poll(WORKERS)
    assert (copy(proc).read_text(), copy(proc, 2).read_text()) == ("[\nfirst,\n", "[\n2,\n")


def test_a_file_from_before_the_run_is_not_copied(proc: Path) -> None:
    file = proc.parent / "t.json"
    file.write_text("old")
    followed(proc, file.stat().st_mtime_ns + 1).poll(WORKERS)
    assert not (proc.parent / "run" / layout.PROFILES).exists()


def test_other_nodes_and_processes_without_the_variable_are_ignored(proc: Path) -> None:
    (proc.parent / "t.json").write_text("[\n")
    followed(proc).poll({"a": WorkerDocument("a", "there", 7), "b": WorkerDocument("b", "here", 9)})
    assert not (proc.parent / "run" / layout.PROFILES).exists()


def test_a_process_that_is_gone_has_the_agents_environment(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = proc.parent / "t.json"
    file.write_text("[\n")
    monkeypatch.setenv("HOROVOD_TIMELINE", str(file))
    followed(proc).poll({"rank0-99": WorkerDocument("rank0-99", "here", 99)})
    assert copy(proc, worker="rank0-99").read_text() == "[\n"


def test_the_copy_is_bounded_and_reported_once(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horovod, "MAX_BYTES", 10)
    timelines, file = followed(proc), proc.parent / "t.json"
    file.write_text("x" * 25)
    (line,) = timelines.poll(WORKERS)
    assert "it exceeds 10 bytes" in line
    assert copy(proc).stat().st_size == 10
    file.write_text("x" * 35)
    assert timelines.poll(WORKERS) == []


def test_a_run_that_cannot_be_written_is_reported_once(proc: Path) -> None:
    (proc.parent / "t.json").write_text("[\n")
    (proc.parent / "run" / layout.PROFILES).write_text("in the way")
    timelines = followed(proc)
    (line,) = timelines.poll(WORKERS)
    assert "no longer copying" in line
    assert timelines.poll(WORKERS) == []
