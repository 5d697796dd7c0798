"""The exit status that a training records itself, for a run whose agent does not learn it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from launching import PATIENCE, end, environment, finish, show, started, wait_for

RECORD = """
import multiprocessing, os, signal, sys, threading, time
from leadline.training.session.exit_record import ExitRecord
record = ExitRecord("record")
os.register_at_fork(after_in_child=record.discard)
"""
TRAINING = """
import os, sys, time
import torch
{watch}
parameter = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([parameter], 0.1)
for step in range(20):
    (parameter ** 2).sum().backward()
    optimizer.step()
    if step == 10 and sys.argv[1:]:
        open("paused", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.01)
{ending}
"""


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(7)",
        "raise SystemExit(300)",
        "sys.exit('a text')",
        "raise ValueError",
        "threading.Thread(target=time.sleep, args=(0.1,)).start(); sys.exit(4)",
        "pid = os.fork()\nif not pid: sys.exit(9)\nos.waitpid(pid, 0); sys.exit(2)",
    ],
)
def test_the_status_that_the_process_exits_with(tmp_path: Path, ending: str) -> None:
    assert recorded(tmp_path, ending) == [run(tmp_path, ending)]


@pytest.mark.parametrize("ending", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_process_that_is_killed_or_skips_its_end_records_nothing(tmp_path: Path, ending: str) -> None:
    assert recorded(tmp_path, ending) == []


@pytest.mark.parametrize(("error", "status"), [("None", 0), ("ValueError()", 1), ("SystemExit(5)", 5)])
def test_the_exception_that_ends_a_child_of_multiprocessing(tmp_path: Path, error: str, status: int) -> None:
    assert recorded(tmp_path, f"record.note_exception({error}); os._exit(0)") == [status]


def recorded(folder: Path, ending: str) -> list[int]:
    run(folder, ending)
    return list((folder / "record").read_bytes())


def run(folder: Path, ending: str) -> int:
    words = [sys.executable, "-c", RECORD + ending]
    return subprocess.run(words, cwd=folder, timeout=PATIENCE, stderr=subprocess.DEVNULL, check=False).returncode


def test_a_script_that_fails_after_its_agent_was_killed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING.format(watch="", ending="sys.exit(7)"))
    with started((), "train.py", "paused", folder=tmp_path) as running:
        wait_for((tmp_path / "paused").exists, "the pause")
        running.job()
        end(running.agent)
        (tmp_path / "go").touch()
        ended = running.wait()
    said = wait_for(lambda: (found := show(ended.run.path))["status"] != "InProgress" and found, "the end of the run")
    assert (said["status"], said["exit_status"]) == ("Failed", 7)
    assert said["status_note"] == "the agent ended before the job"
    assert said["ended"] is not None


def test_a_killed_script_without_an_agent_has_an_unknown_status(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING.format(watch="", ending="os._exit(7)"))
    with started((), "train.py", "paused", folder=tmp_path) as running:
        wait_for((tmp_path / "paused").exists, "the pause")
        running.job()
        end(running.agent)
        (tmp_path / "go").touch()
        ended = running.wait()
    said = wait_for(lambda: (found := show(ended.run.path))["status"] != "InProgress" and found, "the end of the run")
    assert (said["status"], said["exit_status"]) == ("Interrupted", None)
    assert said["status_note"] == "the agent ended before the job; exit status unknown"
    page = finish([sys.executable, "-m", "leadline", "show", ended.run.path], tmp_path, env=environment())
    assert "exit status unknown" in page.out


@pytest.mark.parametrize(
    ("ending", "expected"),
    [("raise ValueError('by the script')", ("Failed", 1)), ("pass", ("Completed", 0))],
)
def test_a_script_that_watches_itself(tmp_path: Path, ending: str, expected: tuple[str, int]) -> None:
    watch = "import leadline; leadline.watch(out='runs')"
    (tmp_path / "train.py").write_text(TRAINING.format(watch=watch, ending=ending))
    ended = finish([sys.executable, "train.py"], tmp_path, env=environment())
    assert ended.status == expected[1]
    said = wait_for(lambda: (found := show(ended.run.path))["status"] != "InProgress" and found, "the end of the run")
    assert (said["status"], said["exit_status"]) == expected
    assert said["status_note"] == ""
