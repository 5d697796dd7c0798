"""``LEADLINE_RUN`` with other launchers: one process creates the run, one agent per node, the others join."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import PATIENCE, end, environment, script, show, wait_for

import leadline
from leadline.monitor.processes import list_pids
from leadline.records.names import JOB_ENDED
from leadline.records.request import Stop
from leadline.store import layout
from leadline.store.control import new_request_id, write_request
from leadline.store.documents import read_document
from leadline.store.node_lock import node_name
from leadline.training.bootstrap import SITE

pytestmark = pytest.mark.real_starts

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a training like a launcher that only sets the environment."""
    started: list[subprocess.Popen[str]] = []

    def launch(*arguments: str, run: Path, **changes: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, script("launched.py"), *arguments],
            cwd=tmp_path,
            text=True,
            env=environment(LEADLINE_RUN=str(run), **changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        end(process.pid) if process.poll() is None else None
        process.communicate(timeout=PATIENCE)


def agents(run: Path) -> list[int]:
    """Return the agents of a run."""
    pids = []
    for pid in list_pids():
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"leadline.agent" in arguments and os.fsencode(run) in arguments:
            pids.append(pid)
    return pids


def ended(run: Path) -> dict[str, Any]:
    """Wait for the end of a run and its agents; return its summary."""
    wait_for(lambda: (read_document(str(run / layout.STATUS)) or {}).get("status") in JOB_ENDED, "the end of the run")
    wait_for(lambda: not agents(run), "the end of the agent")
    return show(run)


def error_output(process: subprocess.Popen[str]) -> str:
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return err


@pytest.mark.slow
@pytest.mark.parametrize("way", ["bootstrap", "watch"])
def test_processes_that_start_at_once_share_one_run_and_one_agent(tmp_path: Path, start: Start, way: str) -> None:
    run, go = tmp_path / "path" / "job-17", tmp_path / "go"
    changes = {"PYTHONPATH": SITE} if way == "bootstrap" else {}
    ranks = [start("30", way, str(go), run=run, RANK=str(rank), **changes) for rank in range(3)]
    documents = run / layout.WORKERS
    wait_for(lambda: documents.is_dir() and len(list(documents.glob("*.json"))) == 3, "three workers")
    assert len(agents(run)) == 1
    assert oct(run.stat().st_mode & 0o777) == "0o700"
    go.touch()
    errors = [error_output(rank) for rank in ranks]
    told = ended(run)
    assert (told["name"], told["status"], told["uri"]) == ("job-17", "Completed", str(run))
    assert sorted(worker["worker"].split("-")[0] for worker in told["workers"]) == ["rank0", "rank1", "rank2"]
    assert {worker["pid"] for worker in told["workers"]} == {rank.pid for rank in ranks}
    assert told["command"][0].endswith("launched.py")
    assert [rule["verdict"] for rule in told["rules"]] != []
    assert sum("run job-17" in line for err in errors for line in err.splitlines()) == 1
    left = {path.name for path in run.iterdir()} | {f"nodes/{path.name}" for path in (run / "nodes").iterdir()}
    assert not any("lock" in name or "draft" in name or name == ".reserve" for name in left), left


@pytest.mark.slow
def test_the_agent_ends_with_the_last_process_and_not_with_the_first(tmp_path: Path, start: Start) -> None:
    run, go, go_on = tmp_path / "job", tmp_path / "go", tmp_path / "go-on"
    first = start("30", "watch", str(go_on), run=run)
    documents = run / layout.WORKERS
    wait_for(lambda: documents.is_dir() and list(documents.glob("*.json")), "the first worker")
    error_output(start("5", "watch", run=run))
    long = start("5", "watch", str(go), run=run)
    wait_for(lambda: len(list(documents.glob("*.json"))) == 3, "three workers")
    go_on.touch()
    assert first.wait(PATIENCE) == 0  # the agent has its standard error, which ends later
    status = read_document(str(run / layout.STATUS)) or {}
    assert status["status"] == "InProgress"
    go.touch()
    error_output(long)
    assert ended(run)["status"] == "Completed"
    error_output(first)


@pytest.mark.slow
def test_a_later_process_continues_the_run(tmp_path: Path, start: Start) -> None:
    run = tmp_path / "job"
    error_output(start("5", "watch", run=run))
    assert ended(run)["steps"] == {"train": 5}
    error_output(start("9", "watch", run=run))
    told = ended(run)
    assert (told["status"], told["steps"], len(told["workers"])) == ("Completed", {"train": 9}, 2)


def test_a_killed_process_ends_the_run(tmp_path: Path, start: Start) -> None:
    run = tmp_path / "job"
    process = start("5", "watch", str(tmp_path / "never"), run=run)
    wait_for(lambda: list((run / layout.WORKERS).glob("*.json")), "the worker")
    process.kill()
    assert ended(run)["status"] == "Failed"


@pytest.mark.slow
def test_a_stop_ends_all_processes_and_the_run_stays_stopped(tmp_path: Path, start: Start) -> None:
    run = tmp_path / "job"
    ranks = [start("5", "watch", str(tmp_path / "never"), run=run, RANK=str(rank)) for rank in range(2)]
    wait_for(lambda: len(list((run / layout.WORKERS).glob("*.json"))) == 2, "two workers")
    write_request(str(run), Stop(new_request_id(), reason="test", by="user", time_ns=1, grace_seconds=20))
    assert [rank.wait(PATIENCE) for rank in ranks] == [10, 10]
    assert ended(run)["status"] == "Stopped"
    late = start("5", "bootstrap", run=run, PYTHONPATH=SITE)
    message = f"the run at {run} was stopped by user; set LEADLINE_RUN to a new location"
    assert f"capture disabled in this process: {message}" in error_output(late)


def test_an_invalid_configuration_is_reported_and_nothing_is_created(tmp_path: Path, start: Start) -> None:
    (tmp_path / "leadline.toml").write_text('preset = "lite"\n')
    run = tmp_path / "job"
    ranks = [start("5", "bootstrap", run=run, PYTHONPATH=SITE) for _ in range(2)]
    errors = [error_output(rank) for rank in ranks]  # the training continues without Leadline
    assert any("capture disabled in this process:" in err and "did you mean 'light'?" in err for err in errors)
    assert not (run / layout.MANIFEST).exists()


@pytest.mark.parametrize(
    ("path", "why"),
    [("s3://bucket/run", "a run is written to a local folder"), ("/proc/no/such", "the run cannot be written at")],
)
def test_an_unusable_path_is_reported_and_the_training_continues(tmp_path: Path, path: str, why: str) -> None:
    done = subprocess.run(
        [sys.executable, script("launched.py"), "5"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=environment(LEADLINE_RUN=path, PYTHONPATH=SITE),
        timeout=PATIENCE,
    )
    assert (done.stdout, done.stderr.count("\n")) == ("5\n", 1)
    assert why in done.stderr


def test_a_training_may_wait_for_its_children(tmp_path: Path) -> None:
    body = "import os, leadline; leadline.watch(); print(os.path.exists(f'/proc/self/task/{os.getpid()}/children') and "
    body += "open(f'/proc/self/task/{os.getpid()}/children').read())"
    done = subprocess.run(
        [sys.executable, "-c", body],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.strip() == ""
    (run,) = (tmp_path / "leadline-runs").iterdir()
    assert ended(run)["status"] == "Completed"  # also if the process ended before its agent had started


@pytest.mark.slow
def test_a_second_node_joins_and_leaves_the_status_to_the_first(tmp_path: Path, start: Start) -> None:
    run, go = tmp_path / "job", tmp_path / "go"
    first = start("5", "watch", str(go), run=run)
    wait_for(lambda: list((run / layout.WORKERS).glob("*.json")), "the worker")
    (primary,) = agents(run)
    other = subprocess.Popen(["sleep", "60"])
    call = "import sys; from leadline.agent.__main__ import main; sys.exit(main(sys.argv[1:], node='other'))"
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    second = subprocess.Popen(
        [sys.executable, "-c", call, str(run), "--attach", str(other.pid), "--lock", str(lock)],
        pass_fds=(lock,),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    os.close(lock)
    try:
        wait_for(lambda: read_document(str(run / layout.node_document("other"))), "the second node")
        os.kill(primary, signal.SIGKILL)  # the second agent takes over
        wait_for(lambda: (read_document(str(run / layout.STATUS)) or {}).get("agent_pid") == second.pid, "the change")
        go.touch()
        error_output(first)
    finally:
        other.kill()
        other.wait()
    _, err = second.communicate(timeout=PATIENCE)
    assert "joined on other" in err
    told = show(run)
    assert (told["status"], told["steps"]["train"] >= 5) == ("Completed", True)
    nodes = {node["node"] for node in leadline.open_run(run).manifest.nodes}
    assert nodes == {"other", node_name()}
