"""The agent with real commands: streams, signals and exit status are passed through, and the job is not affected."""

from __future__ import annotations

import json
import multiprocessing.connection
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_process import PATIENCE, agent, is_gone, launch, make_run, python, status, wait_for

from leadline.records.request import Stop
from leadline.store import layout
from leadline.store.control import new_request_id, write_request
from leadline.store.documents import make_folder, read_document, write_document


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


@pytest.fixture
def background() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


COUNTER = """
    import signal, sys, time
    seen = []
    def note(number, frame):
        seen.append(signal.Signals(number).name)
        print("got", seen[-1], flush=True)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(each, note)
    print("ready", flush=True)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        time.sleep(0.02)
    print("seen", *seen, flush=True)
"""


def test_arguments_with_spaces_and_quotes_arrive(run: Path) -> None:
    told = launch(run, sys.executable, "-c", "import sys; print(sys.argv[1:])", "a b", "it's", '"', "--", "-x", "")
    assert told.stdout == repr(["a b", "it's", '"', "--", "-x", ""]) + "\n"


def test_standard_streams_are_passed_through_to_the_job(run: Path) -> None:
    done = launch(run, "sh", "-c", "cat; echo err >&2", input="line\nwithout end")
    assert done.stdout == "line\nwithout end"
    assert "err\n" in done.stderr


def test_messages_of_the_agent_go_to_standard_error(run: Path) -> None:
    done = launch(run, "true", cwd=run.parent)
    lines = done.stderr.splitlines()
    assert lines[0] == "leadline  run a-run → ./run   preset standard, 0 rules"
    assert lines[1] == "leadline  status: leadline show        stop: leadline stop"
    assert lines[2] == "leadline  Completed: no step was seen; no rules were evaluated."
    assert lines[3].startswith("leadline  exit 0, ")
    assert "no training step was seen" in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("code", "word"), [(0, "Completed"), (3, "Failed"), (130, "Interrupted")])
def test_the_exit_status_of_the_job_is_returned(run: Path, code: int, word: str) -> None:
    assert launch(run, "sh", "-c", f"exit {code}").returncode == code
    assert status(run)["status"] == word
    assert status(run)["exit_status"] == code
    assert [transition["status"] for transition in status(run)["transitions"]] == ["Starting", "InProgress", word]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_job_killed_by_a_signal_returns_128_plus_its_number(run: Path, number: int) -> None:
    done = launch(run, "sh", "-c", f"kill -{int(number)} $$")
    assert done.returncode == 128 + number
    assert f"killed by {signal.Signals(number).name}" in done.stderr
    assert status(run)["status"] == "Failed"


def test_a_command_that_does_not_exist(run: Path) -> None:
    done = launch(run, "no-such-command-at-all")
    assert (done.returncode, done.stderr) == (2, "leadline: no such command: no-such-command-at-all\n")
    assert status(run)["status"] == "Failed"


def test_a_command_that_is_not_executable(run: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("echo\n")
    done = launch(run, str(tmp_path / "plain"))
    assert (done.returncode, done.stderr) == (2, f"leadline: not executable: {tmp_path}/plain\n")


def test_a_file_that_the_system_cannot_run(run: Path, tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"\x00\x01")
    (tmp_path / "odd").chmod(0o700)
    done = launch(run, str(tmp_path / "odd"))
    assert done.returncode == 2
    assert "cannot be started: Exec format error" in done.stderr
    assert "Traceback" not in done.stderr


def test_invalid_usage_is_reported(tmp_path: Path, run: Path) -> None:
    done = launch(tmp_path / "nothing", "true")
    assert done.returncode == 2
    assert done.stderr.startswith("leadline: no run at ")
    odd = subprocess.run(
        [sys.executable, "-m", "leadline.agent", str(run)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert odd.returncode == 2
    assert odd.stderr.startswith("leadline: usage: ")


def test_a_python_file_runs_in_this_interpreter(run: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.executable, sys.argv[1:])")
    done = launch(run, str(tmp_path / "train.py"), "--epochs", "3")
    assert done.stdout == f"{sys.executable} ['--epochs', '3']\n"


def test_the_job_gets_the_default_signal_handlers(run: Path) -> None:
    """Python ignores SIGPIPE, and the agent blocks the signals that it waits for; the job inherits neither."""
    done = launch(run, "grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status")
    masks = [int(line.split()[1], 16) for line in done.stdout.splitlines()]
    # signals 32 and 33 belong to the C library, and its posix_spawn ignores them
    assert [mask & 0x7FFFFFFF for mask in masks] == [0, 0]


def test_the_job_receives_run_node_and_bootstrap_in_its_environment(run: Path) -> None:
    done = launch(
        run, "sh", "-c", 'echo "$LEADLINE_RUN|$LEADLINE_NODE|$PYTHONPATH"', env={**os.environ, "PYTHONPATH": "/x"}
    )
    place, node, path = done.stdout.strip().split("|")
    assert place == str(run)
    assert node == os.uname().nodename
    assert path.endswith("bootstrap/site:/x")


def test_a_signal_to_the_agent_reaches_the_job_once(run: Path, tmp_path: Path, background: Any) -> None:
    process = background(agent(run, *python(tmp_path, COUNTER), "1.5"))
    assert process.stdout.readline() == "ready\n"
    for number in (signal.SIGINT, signal.SIGUSR1):
        os.kill(process.pid, number)
        assert process.stdout.readline() == f"got {number.name}\n"
    out, _ = process.communicate(timeout=PATIENCE)
    assert out == "seen SIGINT SIGUSR1\n"
    assert process.returncode == 0


def test_sigterm_ends_the_job_and_the_run_is_interrupted(run: Path, background: Any) -> None:
    process = background(agent(run, "sleep", "60"))
    wait_for(lambda: (run / layout.STATUS).exists() and status(run)["job_pid"], "the job")
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert status(run)["status"] == "Interrupted"


def test_ctrl_c_in_a_terminal_arrives_once(run: Path, tmp_path: Path) -> None:
    command = agent(run, *python(tmp_path, COUNTER), "1.5")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    text = read_until(terminal, "ready")
    os.write(terminal, b"\x03")
    text += read_until(terminal, "got SIGINT") + read_until(terminal, None)
    _, code = os.waitpid(pid, 0)
    os.close(terminal)
    assert "seen SIGINT\r\n" in text
    assert os.waitstatus_to_exitcode(code) == 0
    assert status(run)["status"] == "Completed"


def read_until(terminal: int, word: str | None) -> str:
    """Return the terminal output up to a word, or up to the end if no word is given."""
    seen = b""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and (word is None or word.encode() not in seen):
        if not multiprocessing.connection.wait([terminal], 0.1):
            continue
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the last process has closed it
            break
        seen += data
        if not data:
            break
    return seen.decode()


def test_colors_are_used_only_in_a_terminal(run: Path) -> None:
    shown = {}
    for setting in ({}, {"NO_COLOR": "1"}):
        command = agent(run, "true")
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(command[0], command, environment | {"TERM": "xterm"} | setting)
        shown[bool(setting)] = read_until(terminal, None)
        os.waitpid(pid, 0)
        os.close(terminal)
    assert "\x1b[2m" in shown[False]
    assert "\x1b[2m" not in shown[True]


def test_kill_9_of_the_agent_does_not_affect_the_job(run: Path, tmp_path: Path, background: Any) -> None:
    ended = tmp_path / "ended"
    process = background(agent(run, *python(tmp_path, COUNTER + f"    open({str(ended)!r}, 'w').close()\n"), "1"))
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=PATIENCE)
    assert process.stdout.read() == "seen\n"
    wait_for(ended.exists, "the normal end of the job")


GRANDCHILD = """
    import os, signal, subprocess, sys, time
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    deaf = subprocess.Popen(
        [sys.executable, "-c", "import signal as s, time; s.signal(15, s.SIG_IGN); print(flush=True); time.sleep(60)"],
        start_new_session=True, stdout=subprocess.PIPE, text=True,
    )
    deaf.stdout.readline()
    print(deaf.pid, flush=True)
    time.sleep(60)
"""


def test_an_ignored_stop_is_enforced_on_every_descendant(run: Path, tmp_path: Path, background: Any) -> None:
    bystander = background(["sleep", "60"])
    process = background(agent(run, *python(tmp_path, GRANDCHILD)))
    grandchild = int(process.stdout.readline())
    write_request(str(run), Stop(new_request_id(), by="user", grace_seconds=0.5))
    wait_for(lambda: status(run)["status"] == "Stopping", "the transition")
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 10
    assert is_gone(grandchild)
    assert bystander.poll() is None
    assert status(run)["status"] == "Stopped"
    assert status(run)["stopped_by"] == "user"
    assert "SIGTERM to 2 processes" in err
    assert "2 processes still running 5.0 s after SIGTERM: sending SIGKILL" in err
    assert "leadline  Stopped by hand; no rules were evaluated." in err


def test_children_left_by_a_stopped_job_are_terminated(run: Path, tmp_path: Path, background: Any) -> None:
    """An orphan in its own session is found, because the agent adopts it."""
    body = """
        import os, subprocess, sys, time
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(["sleep", "60"], start_new_session=True, **quiet)
        print(child.pid, flush=True)
        while not os.listdir(os.environ["LEADLINE_RUN"] + "/control/acks"):
            time.sleep(0.02)
        sys.exit(10)
    """
    process = background(agent(run, *python(tmp_path, body)))
    orphan = int(process.stdout.readline())
    request = Stop(new_request_id(), by="rule:exploding_tensor", grace_seconds=30.0)
    write_request(str(run), request)
    wait_for(lambda: status(run)["status"] == "Stopping", "the transition")
    acknowledgement = {"id": request.id, "worker": "rank0-1", "step": 3, "time_ns": 1, "outcome": "taken"}
    write_document(str(run / layout.acknowledgement(request.id, "rank0-1")), acknowledgement)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 10
    assert is_gone(orphan)
    assert status(run)["stopped_by"] == "rule:exploding_tensor"
    assert "leadline  Stopped by exploding_tensor; no rules were evaluated." in err


def test_a_request_that_arrives_too_late_stops_nothing(run: Path, background: Any) -> None:
    process = background(agent(run, "sh", "-c", "echo go; sleep 1; exit 3"))
    process.stdout.readline()
    write_request(str(run), Stop(new_request_id(), step=10, by="rule:r", grace_seconds=30.0))
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    assert status(run)["status"] == "Failed"
    assert status(run)["stopped_by"] is None


def test_attached_to_a_process(run: Path, background: Any) -> None:
    job = background(["sleep", "60"])
    watcher = background([sys.executable, "-m", "leadline.agent", str(run), "--attach", str(job.pid)])
    wait_for(lambda: (run / layout.STATUS).exists() and status(run)["status"] == "InProgress", "the attachment")
    write_request(str(run), Stop(new_request_id(), by="user", grace_seconds=0.2))
    watcher.communicate(timeout=PATIENCE)
    assert watcher.returncode == 10
    assert job.wait(timeout=PATIENCE) == -signal.SIGTERM
    assert status(run)["status"] == "Stopped"


def test_an_attached_agent_that_is_terminated_leaves_the_process_running(run: Path, background: Any) -> None:
    job = background(["sleep", "60"])
    watcher = background([sys.executable, "-m", "leadline.agent", str(run), "--attach", str(job.pid)])
    wait_for(lambda: (run / layout.STATUS).exists() and status(run)["status"] == "InProgress", "the attachment")
    watcher.send_signal(signal.SIGTERM)
    watcher.communicate(timeout=PATIENCE)
    assert job.poll() is None
    assert status(run)["status"] == "Interrupted"


def test_a_worker_that_ended_ends_the_attachment(run: Path, background: Any) -> None:
    job = background(["sleep", "60"])
    watcher = background([sys.executable, "-m", "leadline.agent", str(run), "--attach", str(job.pid)])
    wait_for(lambda: (run / layout.STATUS).exists() and status(run)["status"] == "InProgress", "the attachment")
    write_worker(run, job.pid, state="ended")
    watcher.communicate(timeout=PATIENCE)
    assert watcher.returncode == 0
    assert status(run)["status"] == "Completed"


def write_worker(run: Path, pid: int, **changes: Any) -> None:
    document = {
        "worker": f"rank0-{pid}",
        "node": os.uname().nodename,
        "pid": pid,
        "state": "running",
        "models": [{"name": "Net", "parameters": 62}],
        "optimizers": ["AdamW"],
        "watching": "losses every step, statistics every 50",
        "steps": {"train": 3750},
        "own_ns": 7_000_000,
        "loop_ns": 1_000_000_000,
        "lost": None,
        "off": None,
    }
    make_folder(str(run / layout.WORKERS))
    write_document(str(run / layout.worker_document(f"rank0-{pid}")), document | changes)


def test_a_worker_is_announced_and_added_to_the_manifest(run: Path, background: Any) -> None:
    process = background(agent(run, "sh", "-c", "echo $$; sleep 1.5"))
    pid = int(process.stdout.readline())
    write_worker(run, pid, lost={"since_step": 7, "reason": "the disk is full", "rows": 3, "tensors": 0})
    _, err = process.communicate(timeout=PATIENCE)
    lines = err.splitlines()
    assert lines[1] == "leadline  watching Net (62 parameters, AdamW): losses every step, statistics every 50"
    assert lines[2] == "leadline  status: leadline show        stop: leadline stop"
    assert f"leadline  rank0-{pid}: dropped 3 rows since step 7: the disk is full" in lines
    assert ", 3,750 steps. Overhead: 7 ms (0.7 % of step time), " in err
    assert "no training step" not in err
    manifest = json.loads((run / layout.MANIFEST).read_text())
    assert [worker["pid"] for worker in manifest["workers"]] == [pid]
    assert manifest["nodes"][0]["gone"] == [f"rank0-{pid}"]
    assert manifest["lost"][0]["reason"] == "the disk is full"
    node = read_document(str(run / layout.node_document(os.uname().nodename)))
    assert node["cpu_count"] == len(os.sched_getaffinity(0))
    assert not (run / layout.RESERVE).exists()


def test_system_samples_are_stored_and_readable(run: Path) -> None:
    import pyarrow.ipc

    launch(run, "sleep", "0.6")
    segments = sorted((run / layout.SYSTEM / os.uname().nodename).iterdir())
    with pyarrow.ipc.open_stream(segments[0]) as stream:
        channels = json.loads(stream.schema.metadata[b"leadline.channels"])
        table = stream.read_all()
    read = {tuple(channels[index]) for index in table["channel"].to_pylist()}
    assert ("memory", "total", "used_bytes") in read
    assert ("process", "job", "process_count") in read
    assert ("disk", "run", "free_bytes") in read


def test_the_agent_imports_no_heavy_modules(run: Path) -> None:
    call = (
        "import sys; from leadline.agent.__main__ import main; main(sys.argv[1:]); "
        "heavy = {'numpy', 'pyarrow', 'typer', 'rich', 'torch', 'duckdb', 'msgspec', 'asyncio'} & set(sys.modules); "
        "print('heavy', sorted(heavy))"
    )
    command = [sys.executable, "-c", call, str(run), "--", "sleep", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "heavy []\n"


UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc"]


def can_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, timeout=PATIENCE, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not can_unshare(), reason="a pid namespace needs privileges that are missing here")
def test_works_as_pid_1(run: Path, tmp_path: Path, background: Any) -> None:
    """As in a container, orphans are reaped, and a signal from outside ends the job."""
    body = """
        import os, subprocess, time
        orphan = int(subprocess.run(["sh", "-c", "sleep 600 >&2 & echo $!"], stdout=subprocess.PIPE).stdout)
        print(os.getppid(), open(f"/proc/{orphan}/stat").read().rpartition(")")[2].split()[1], flush=True)
        os.kill(orphan, 9)
        while os.path.exists(f"/proc/{orphan}"):  # also as a zombie
            time.sleep(0.05)
        print("reaped", flush=True)
        time.sleep(600)
    """
    process = background([*UNSHARE, *agent(run, *python(tmp_path, body))])
    assert process.stdout.readline() == "1 1\n"
    assert process.stdout.readline() == "reaped\n"
    inner = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(inner[0]), signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert status(run)["status"] == "Interrupted"


def test_a_python_that_cannot_import_leadline_is_reported_first(run: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "python3"
    other.write_text('#!/bin/sh\n[ "$2" = -c ] && exit 1\necho "ran with [$PYTHONPATH]"\n')
    other.chmod(0o700)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = launch(run, str(other), "train", env=environment)
    assert done.stdout == "ran with []\n"
    assert done.stderr.splitlines()[0].endswith(
        f"system metrics only: {other} cannot import leadline; install it there with: {other} -m pip install leadline"
    )
    assert status(run)["status"] == "Completed"


def test_an_isolating_option_is_reported_first(run: Path) -> None:
    done = launch(run, sys.executable, "-I", "-c", "print('trained')")
    assert done.stdout == "trained\n"
    assert "system metrics only: Python's option -I keeps Leadline out" in done.stderr.splitlines()[0]
    assert done.returncode == 0


def test_an_invalid_request_is_reported_and_has_no_effect(run: Path, background: Any) -> None:
    process = background(agent(run, "sh", "-c", "echo go; sleep 1; exit 3"))
    process.stdout.readline()
    write_document(str(run / layout.request("odd")), {"id": "odd", "colour": "blue"})
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    assert "leadline  cannot read a request in control: " in err
