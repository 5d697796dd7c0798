"""The judge as a process, and its rule workers, when one of the processes dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from own_judge import judge_of

from leadline.records.manifest import RuleSpec
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.testing.runs import Capture, RunWriter

PATIENCE_SECONDS = 60.0
SPINNING = """
from leadline.rules import Clear, Needs, Rule

class Spinning(Rule):
    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        while True:
            pass
"""


def wait_until(holds: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    (tmp_path / "spinning.py").write_text(SPINNING)
    rules = [RuleSpec("e", "exploding_tensor"), RuleSpec("s", "spinning.py:Spinning", folder=str(tmp_path))]
    return RunWriter(tmp_path / "run", rules=rules)


@pytest.fixture
def judge(writer: RunWriter) -> Iterator[subprocess.Popen[bytes]]:
    command = judge_of(writer.path, "--follow", "--hang-seconds", "1000")
    process = subprocess.Popen(command, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def judged_steps(writer: RunWriter) -> int:
    document = read_document(f"{writer.path}/{layout.rule_status('e')}")
    return document["judged_steps"] if document else 0


def test_a_judge_that_is_killed_takes_its_rule_workers_with_it_and_is_replaced(
    writer: RunWriter, judge: subprocess.Popen[bytes]
) -> None:
    writer.write_all([Capture(step, {"loss": {"value": float("nan")}}) for step in range(3)])
    wait_until(lambda: judged_steps(writer) == 2)
    wait_until(lambda: len(psutil.Process(judge.pid).children()) == 2)  # one of them may start after the first steps
    workers = psutil.Process(judge.pid).children()
    judge.kill()
    judge.wait()
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE_SECONDS)
    assert alive == []
    writer.end()
    command = judge_of(writer.path, "--follow", "--hang-seconds", "0.5")
    assert subprocess.run(command, timeout=PATIENCE_SECONDS, check=False).returncode == 0
    summary = read_document(f"{writer.path}/{layout.RULE_SUMMARY}")
    assert [each["status"] for each in summary["rules"]] == ["IssuesFound", "Error"]
    assert [each["step"] for each in summary["announcements"]] == [0]
    assert summary["complete"]


def test_the_judge_ignores_ctrl_c(writer: RunWriter, judge: subprocess.Popen[bytes]) -> None:
    writer.write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(3)])
    wait_until(lambda: judged_steps(writer) == 2)
    os.killpg(judge.pid, signal.SIGINT)
    writer.write(Capture(5))
    wait_until(lambda: judged_steps(writer) == 3)
    assert judge.poll() is None


def test_a_judge_whose_agent_and_training_are_gone_finishes_by_itself(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    writer = RunWriter(tmp_path / "run", rules=[RuleSpec("e", "exploding_tensor")])
    host = os.uname().nodename
    training = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    writer.set_status("InProgress", node=host, agent_pid=gone.pid, job_pid=training.pid)
    writer.write_all([Capture(step, {"loss": {"value": 1.0}}) for step in range(3)])
    writer.write_worker("rank0-1", node=host, pid=training.pid, time_ns=time.time_ns())
    judge = subprocess.Popen(judge_of(writer.path, "--follow"))
    wait_until(lambda: judged_steps(writer) == 2)
    assert judge.poll() is None
    training.communicate(b"\n")
    assert judge.wait(PATIENCE_SECONDS) == 0
    assert judged_steps(writer) == 3
    assert read_document(f"{writer.path}/{layout.RULE_SUMMARY}")["complete"]


def test_a_folder_that_is_not_a_run_is_one_line_and_status_two(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "leadline.judge", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("leadline: there is no run at ")
    assert done.stderr.count("\n") == 1
