"""Signals to the process group or to the agent alone: the job receives each as often as without Leadline."""

from __future__ import annotations

import multiprocessing.connection
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from agent_process import PATIENCE, agent, make_run, status, wait_for

from leadline.agent.signals import signal_set
from leadline.monitor.processes import read_stat

NUMBERS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH),
    *(signal.SIGALRM, signal.SIGXCPU, signal.SIGURG, signal.SIGPWR, signal.SIGRTMIN + 3),
)
COUNTING = """
import os, signal, sys, time
counts, numbers = {}, [int(word) for word in sys.argv[2].split(",")]

def count(number, _):
    counts[number] = counts.get(number, 0) + 1
    say(number, counts[number])

def say(*words):
    os.write(1, (" ".join(map(str, (sys.argv[1], *words))) + "\\n").encode())  # at once, as two processes write

for number in numbers:
    signal.signal(number, count)
child = None
if sys.argv[1] == "parent":  # as torchrun, which starts a process for each GPU in its own group
    import subprocess
    child = subprocess.Popen([sys.executable, __file__, "child", sys.argv[2]])
say("ready")
deadline = time.monotonic() + 60
while not os.path.exists("done") and time.monotonic() < deadline:
    time.sleep(0.02)
time.sleep(0.3)  # a second delivery would come within this time
say("all", *counts.values())
if child:
    child.wait()
sys.exit(42)
"""


class Counting:
    """A job that counts the signals that it receives, under an agent in a process group of their own."""

    def __init__(self, folder: Path, kind: str) -> None:
        (folder / "counting.py").write_text(COUNTING)
        self.run, self._folder = make_run(folder / "run"), folder
        numbers = ",".join(str(int(number)) for number in NUMBERS)
        command = agent(self.run, sys.executable, str(folder / "counting.py"), kind, numbers)
        self._output = folder / "output"
        with open(self._output, "wb") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.DEVNULL, cwd=folder, start_new_session=True
            )
        self.await_line(f"{kind} ready")
        wait_for(lambda: any(True for _ in self._witnesses()), "the witness")

    def _witnesses(self) -> Iterator[int]:
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", "rb") as file:
            children = [int(child) for child in file.read().split()]
        for child in children:
            with suppress(FileNotFoundError), open(f"/proc/{child}/cmdline", "rb") as command:
                if b"os.read(0, 1)" in command.read():
                    yield child

    def lines(self) -> list[str]:
        return self._output.read_text().splitlines()

    def await_line(self, line: str) -> None:
        wait_for(lambda: line in self.lines(), line)

    @contextmanager
    def taken(self, number: int, *, by_group: bool) -> Iterator[None]:
        """Wait until the agent has taken a signal: another of the same number before that counts as the same one."""
        before = set(self._witnesses())
        yield
        wait_for(lambda: number not in signal_set(self.process.pid, "ShdPnd"), "the agent")
        if by_group:
            wait_for(lambda: (now := set(self._witnesses())) and not now & before, "another witness")

    def totals(self) -> dict[str, list[int]]:
        """End the job, and return how often each process received the signals that it received."""
        (self._folder / "done").touch()
        self.process.wait(PATIENCE)
        found = [line.split() for line in self.lines() if " all" in line]
        return {kind: [int(count) for count in counts] for kind, _, *counts in found}


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Callable[[str], Counting]]:
    started: list[Counting] = []

    def start(kind: str) -> Counting:
        started.append(Counting(tmp_path, kind))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.wait()


SENDERS = {"group": os.killpg, "agent": os.kill}


@pytest.mark.parametrize("to", SENDERS)
def test_every_signal_arrives_once(counting: Callable[[str], Counting], to: str) -> None:
    job = counting("job")
    for number in NUMBERS:
        SENDERS[to](job.process.pid, number)
        job.await_line(f"job {int(number)} 1")
    assert job.totals() == {"job": [1] * len(NUMBERS)}
    assert job.process.returncode == 42


def test_signals_to_the_group_and_to_the_agent_alternate(counting: Callable[[str], Counting]) -> None:
    job = counting("job")
    for count in range(1, 9):
        to = "group" if count % 2 else "agent"
        with job.taken(signal.SIGINT, by_group=to == "group"):
            SENDERS[to](job.process.pid, signal.SIGINT)
            job.await_line(f"job 2 {count}")
    assert job.totals() == {"job": [8]}
    assert job.process.returncode == 42


@pytest.mark.parametrize(
    ("to", "expected"), [("group", {"parent": [1], "child": [1]}), ("agent", {"parent": [1], "child": []})]
)
def test_children_of_the_job_receive_what_they_would_without_leadline(
    counting: Callable[[str], Counting], to: str, expected: dict[str, list[int]]
) -> None:
    job = counting("parent")
    job.await_line("child ready")
    SENDERS[to](job.process.pid, signal.SIGUSR1)
    job.await_line(f"parent {int(signal.SIGUSR1)} 1")
    assert job.totals() == expected


def test_a_sender_that_signals_each_process_of_the_job_counts_as_one_that_signals_the_group(
    counting: Callable[[str], Counting],
) -> None:
    """As Slurm does, which signals every process of a cgroup."""
    job = counting("job")
    session = job.process.pid
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    stats = [stat for stat in map(read_stat, pids) if stat is not None and stat.session == session]
    for stat in sorted(stats):
        os.kill(stat.pid, signal.SIGUSR2)
    job.await_line(f"job {int(signal.SIGUSR2)} 1")
    assert job.totals() == {"job": [1]}


def test_nothing_of_leadline_is_left_in_the_group_and_the_witness_is_not_part_of_the_job(
    counting: Callable[[str], Counting],
) -> None:
    job = counting("job")
    session = job.process.pid
    job.totals()
    assert status(job.run)["exit_status"] == 42
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    stats = [stat for stat in map(read_stat, pids) if stat is not None and stat.is_alive]
    assert not [stat for stat in stats if stat.session == session]


def test_ctrl_c_in_a_terminal_and_signals_to_the_agent_alternate(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    run, number = make_run(tmp_path / "run"), int(signal.SIGINT)
    command = agent(run, sys.executable, str(tmp_path / "counting.py"), "job", str(number))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(command[0], command)
    text = read_until(terminal, "job ready")
    wait_for(lambda: status(run).get("job_pid"), "the job")
    time.sleep(0.5)  # the witness starts right after the job
    for count in range(1, 9):
        if count % 2:
            os.write(terminal, b"\x03")
        else:
            os.kill(pid, signal.SIGINT)
        text += read_until(terminal, f"job {number} {count}")
        time.sleep(0.2)  # the kernel keeps one signal of a kind that the agent has not received yet
    (tmp_path / "done").touch()
    text += read_until(terminal, None)
    _, code = os.waitpid(pid, 0)
    os.close(terminal)
    assert "job all 8" in text
    assert os.waitstatus_to_exitcode(code) == 42


def read_until(terminal: int, word: str | None) -> str:
    """Return the output of a terminal up to a word, or up to the end if no word is given."""
    seen, until = b"", time.monotonic() + PATIENCE
    while time.monotonic() < until and (word is None or word.encode() not in seen):
        if not multiprocessing.connection.wait([terminal], 0.1):
            continue
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the last process has closed it
            break
        seen += data
    return seen.decode(errors="replace")


@pytest.mark.slow
@pytest.mark.parametrize("to", SENDERS)
def test_every_signal_arrives_once_on_a_busy_machine(counting: Callable[[str], Counting], to: str) -> None:
    spin = "import time; end = time.monotonic() + 100\nwhile time.monotonic() < end: pass"
    busy = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        job = counting("job")
        for count in range(1, 21):
            for number in NUMBERS:
                SENDERS[to](job.process.pid, number)
                job.await_line(f"job {int(number)} {count}")
                time.sleep(0.001 * (count % 7))
        assert job.totals() == {"job": [20] * len(NUMBERS)}
    finally:
        for process in busy:
            process.kill()
            process.wait()
