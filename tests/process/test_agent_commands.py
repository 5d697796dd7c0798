"""Commands of actions, run by a real agent: once, in order, with timeouts, outside the job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_process import PATIENCE, agent, is_gone, make_run, python, status, trusting, wait_for

from leadline.monitor.processes import list_pids, read_stat
from leadline.records.notification import Notification
from leadline.records.request import ExecuteCommand, Stop
from leadline.store import control, layout
from leadline.store.documents import read_document, write_document

NOTICE = Notification(
    "loss_spike/opened/7",
    "finding",
    "a-run",
    "/runs/a-run",
    "IssuesFound",
    1,
    rule="loss_spike",
    step=7,
    message='it\'s "large": $HOME `id`\nand more',
    verdict="fired",
    evidence={"loss": float("nan")},
)


class Watched:
    """An agent, its job, and the run."""

    def __init__(self, run: Path, process: subprocess.Popen[str]) -> None:
        self.run, self.process = run, process

    def ask(self, command: str, **parameters: Any) -> str:
        return ask(self.run, command, **parameters)

    def answer(self, request: str) -> str:
        return str(wait_for(lambda: answers(self.run).get(request), f"the answer to {request}"))

    def printed(self, request: str) -> str:
        return (self.run / layout.command_output(request)).read_text()

    def end(self) -> str:
        """Let the job end; return the output of the agent."""
        (self.run.parent / "end").touch()
        _, said = self.process.communicate(timeout=PATIENCE)
        return said


def ask(run: Path, command: str, **parameters: Any) -> str:
    given = {"command": command, "timeout": 30.0, "notice": NOTICE.to_dict()} | parameters
    request = ExecuteCommand(control.new_request_id(), by="rule:loss_spike", **given)
    control.write_request(str(run), request)
    return request.id


def answers(run: Path) -> dict[str, str]:
    return {name: str(answer.answer) for name, (answer,) in control.read_acknowledgements(str(run)).items()}


def make(tmp_path: Path, *commands: str) -> Path:
    """Create a run whose actions have these commands."""
    run = make_run(tmp_path / "run")
    manifest = read_document(str(run / layout.MANIFEST))
    (tmp_path / "folder").mkdir()
    actions = [{"rule": "*", "action": "run_command", "parameters": {"command": command}} for command in commands]
    write_document(str(run / layout.MANIFEST), manifest | {"actions": actions, "folder": str(tmp_path / "folder")})
    return run


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Any]:
    """Return a function that starts an agent whose job runs until the test ends it."""
    started: list[subprocess.Popen[str]] = []

    def start(*commands: str, run: Path | None = None, **environment: str) -> Watched:
        run = run or make(tmp_path, *commands)
        job = f"until [ -e '{tmp_path}/end' ]; do sleep 0.05; done"
        process = subprocess.Popen(
            agent(run, "sh", "-c", job), stderr=subprocess.PIPE, text=True, env=trusting(run) | environment
        )
        started.append(process)
        wait_for(lambda: (run / layout.STATUS).exists() and status(run)["status"] == "InProgress", "the job")
        return Watched(run, process)

    yield start
    (tmp_path / "end").touch()
    for process in started:
        process.kill()
        process.communicate()


def test_a_command_receives_the_notification_and_is_not_part_of_the_run(watch: Any, tmp_path: Path) -> None:
    command = "pwd; env -0 > env; cat > notice; cut -d ' ' -f 6 /proc/$$/stat; echo loud >&2"
    watched = watch(command, LEADLINE_RUN="/elsewhere", OF_THE_USER="kept")
    request = watched.ask(command)
    assert watched.answer(request).startswith("exit status 0 after ")
    folder = tmp_path / "folder"
    where, session, loud = watched.printed(request).split()
    assert (where, loud) == (str(folder), "loud")
    assert json.loads((folder / "notice").read_text()) == NOTICE.to_dict() | {"evidence": {"loss": "NaN"}} | {
        "tensors": [],
        "rules": [],
    }
    told = dict(word.split("=", 1) for word in (folder / "env").read_text().split("\0") if word)
    assert told["OF_THE_USER"] == "kept"
    event = {key.removeprefix("LEADLINE_EVENT_"): value for key, value in told.items() if "LEADLINE_EVENT" in key}
    assert event == {
        "ID": NOTICE.id,
        "KIND": "finding",
        "RUN": "a-run",
        "URI": NOTICE.uri,
        "RULE": "loss_spike",
        "WORKER": "",
        "STATUS": "IssuesFound",
        "PREVIOUS": "",
        "VERDICT": "fired",
        "WHY": "",
        "JOB_STATUS": "InProgress",
        "STEP": "7",
        "MESSAGE": NOTICE.message,
        "SUGGESTION": "",
    }
    assert not {"LEADLINE_RUN", "LEADLINE_NODE", "LEADLINE_DISABLED"} & told.keys()
    assert "bootstrap" not in told.get("PYTHONPATH", "")
    assert int(session) != os.getsid(watched.process.pid)
    assert oct((watched.run / layout.command_output(request)).stat().st_mode)[-3:] == "600"


def test_a_command_that_is_not_in_the_manifest_is_never_run(watch: Any, tmp_path: Path) -> None:
    watched = watch("touch known")
    strange, known = watched.ask("touch strange"), watched.ask("touch known")
    assert watched.answer(known).startswith("exit status 0")
    assert watched.answer(strange) == "refused: the run was not started with that command"
    manifest = read_document(str(watched.run / layout.MANIFEST))
    changed = [{"rule": "*", "action": "run_command", "parameters": {"command": "touch strange"}}]
    write_document(str(watched.run / layout.MANIFEST), manifest | {"actions": changed})
    assert watched.answer(watched.ask("touch strange")).startswith("refused: ")
    assert os.listdir(tmp_path / "folder") == ["known"]


def test_requests_from_before_the_agent_are_not_run(watch: Any, tmp_path: Path) -> None:
    run = make(tmp_path, "touch old")
    old = ask(run, "touch old")
    watched = watch(run=run)
    assert watched.answer(old) == "refused: it was requested before this agent started"
    assert os.listdir(tmp_path / "folder") == []


def test_requests_are_served_one_at_a_time_in_order(watch: Any, tmp_path: Path) -> None:
    command = 'n=$(cat | wc -c); [ ! -e busy ] || echo TOGETHER; touch busy; sleep 0.1; rm busy; echo "$n" > /dev/null'
    watched = watch(command)
    requests = [watched.ask(command) for _ in range(5)]  # several within one tick of the file system clock
    for request in requests:
        assert watched.answer(request).startswith("exit status 0")
        assert watched.printed(request) == ""
    ends = [
        (watched.run / layout.ACKS / f"{name}.{_answerer(watched.run)}.json").stat().st_mtime_ns for name in requests
    ]
    assert ends == sorted(ends)


def _answerer(run: Path) -> str:
    return {answer.worker for (answer,) in control.read_acknowledgements(str(run)).values()}.pop()


def test_a_failed_command_is_reported_with_its_status(watch: Any) -> None:
    watched = watch("echo no >&2; exit 3", "kill -9 $$")
    failing, killed = watched.ask("echo no >&2; exit 3"), watched.ask("kill -9 $$")
    assert watched.answer(failing).startswith("failed: exit status 3 after ")
    assert watched.answer(failing).endswith(f"; output: commands/{failing}.log")
    assert watched.printed(failing) == "no\n"
    assert watched.answer(killed).startswith("failed: killed by SIGKILL after ")
    assert "printed" not in watched.answer(killed)


def test_a_command_that_times_out_is_terminated_with_its_children(watch: Any) -> None:
    command = "sleep 600 & echo $!; exec sleep 601"
    watched = watch(command, "echo next")
    hanging, following = watched.ask(command, timeout=3.0), watched.ask("echo next")
    assert watched.answer(hanging).startswith("failed: timed out after 3.0 s; output: ")
    assert is_gone(int(watched.printed(hanging)))
    assert watched.answer(following).startswith("exit status 0")


@pytest.mark.slow
def test_a_command_that_ignores_sigterm_is_killed(watch: Any) -> None:
    command = "trap '' TERM; echo $$; while :; do sleep 1; done"
    watched = watch(command)
    request = watched.ask(command, timeout=3.0)
    assert watched.answer(request).startswith("failed: timed out after 3.0 s")
    assert is_gone(int(watched.printed(request).split()[0]))  # shells may tell that their child was killed


def test_a_command_survives_the_end_of_the_job_and_is_not_measured_with_it(watch: Any, tmp_path: Path) -> None:
    command = f"until [ -e '{tmp_path}/may-end' ]; do sleep 0.05; done; echo whole"
    watched = watch(command)
    request = watched.ask(command)
    wait_for(lambda: (watched.run / layout.command_output(request)).exists(), "the command")
    control.write_request(str(watched.run), Stop(control.new_request_id(), by="user", grace_seconds=0.0))
    awaited = "waiting for run_command (until its timeout); Ctrl-C terminates it"
    assert watched.process.stderr is not None
    assert any(awaited in line for line in watched.process.stderr)
    assert status(watched.run)["ended_ns"]
    (tmp_path / "may-end").touch()
    watched.end()
    assert answers(watched.run)[request].startswith("exit status 0")
    assert watched.printed(request) == "whole\n"
    assert status(watched.run)["status"] == "Stopped"


def test_ctrl_c_terminates_the_command(watch: Any, tmp_path: Path) -> None:
    watched = watch("sleep 600", "touch waiting")
    running, waiting = watched.ask("sleep 600", timeout=600.0), watched.ask("touch waiting")
    wait_for(lambda: (watched.run / layout.command_output(running)).exists(), "the command")
    (tmp_path / "end").touch()
    wait_for(lambda: status(watched.run)["ended_ns"], "the end of the job")
    watched.process.send_signal(signal.SIGINT)
    watched.end()
    assert answers(watched.run)[running].startswith("failed: terminated at the end of the run")
    assert answers(watched.run)[waiting] == "refused: the run had ended"
    assert os.listdir(tmp_path / "folder") == []
    assert status(watched.run)["status"] == "Completed"


def test_endless_output_does_not_fill_the_disk(watch: Any) -> None:
    command = "yes | head -c 50000000"
    watched = watch(command)
    request = watched.ask(command)
    assert watched.answer(request).startswith("exit status 0")
    watched.end()
    printed = watched.printed(request)
    assert printed.endswith("\n(leadline: output truncated here)\n")
    assert 1 << 20 < len(printed) < (1 << 20) + 100


def test_a_training_started_by_a_command_gets_its_own_run(watch: Any, tmp_path: Path) -> None:
    script = " ".join(python(tmp_path, "import sys; print([each for each in sys.path if 'bootstrap' in each])"))
    watched = watch(script)
    request = watched.ask(script)
    watched.answer(request)
    watched.end()
    assert watched.printed(request) == "[]\n"


def test_a_variable_is_resolved_by_the_shell_alone(watch: Any, tmp_path: Path) -> None:
    secret = "s3cret-of-the-user"
    command = 'test "$TOKEN" = "' + secret[::-1] + '"; sleep 5; true'  # the shell would become its last command
    watched = watch(command, TOKEN=secret)
    request = watched.ask(command)
    wait_for(lambda: (watched.run / layout.command_output(request)).exists(), "the command")
    wait_for(lambda: [line for line in _words() if command in line], "the shell")
    assert not any(secret in line for line in _words())
    for path in watched.run.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()


def _words() -> list[str]:
    found = []
    for pid in list_pids():
        if read_stat(pid) is not None:
            try:
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                continue
    return found


def test_background_processes_of_a_command_are_left_running(watch: Any, tmp_path: Path) -> None:
    command = "(sleep 0.6; echo late > late) > /dev/null 2>&1 & echo $!"
    watched = watch(command)
    began = time.monotonic()
    request = watched.ask(command)
    assert watched.answer(request).startswith("exit status 0")
    watched.end()
    assert time.monotonic() > began
    wait_for(lambda: (tmp_path / "folder" / "late").exists(), "what was left in the background")
