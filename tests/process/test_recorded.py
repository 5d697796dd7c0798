"""A training that several tests read is run once, until something changes that it depends on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import recorded
from launching import environment

TRAINING = "import os, sys, time\nprint(os.getpid(), sys.stdin.read(), os.environ.get('GIVEN'))\n"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recorded, "KEPT", tmp_path / "kept")
    recorded._sources.cache_clear()
    (tmp_path / "training.py").write_text(TRAINING)
    return tmp_path / "kept"


def run(folder: Path, *words: str, **changes: str) -> str:
    ended, place = recorded.recorded([sys.executable, str(folder / "training.py"), *words], given="x", **changes)
    assert (ended.status, place.is_dir()) == (0, True)
    return ended.out


def test_the_same_command_runs_once_and_another_one_anew(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert run(tmp_path) == first
    assert len({first, run(tmp_path, "other"), run(tmp_path, GIVEN="1"), run(tmp_path, GIVEN="2")}) == 4


def test_runs_of_other_sources_are_removed(tmp_path: Path, kept: Path) -> None:
    (kept / "of_other_sources").mkdir(parents=True)
    run(tmp_path)
    assert [folder.name for folder in kept.iterdir()] == [recorded._sources()]


def test_two_processes_that_need_it_run_it_once(tmp_path: Path, kept: Path) -> None:
    program = f"""
import pathlib, sys
sys.path[:0] = {sys.path!r}
import recorded
recorded.KEPT = pathlib.Path({str(kept)!r})
print(recorded.recorded([sys.executable, {str(tmp_path / "training.py")!r}], given="x")[0].out)
"""
    words = [sys.executable, "-c", program]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) for _ in range(2)]
    assert len({process.communicate()[0] for process in both}) == 1


def test_a_command_that_was_interrupted_runs_again(tmp_path: Path, kept: Path) -> None:
    first = run(tmp_path)
    (ended,) = kept.rglob("ended.json")
    ended.unlink()
    assert run(tmp_path) != first
