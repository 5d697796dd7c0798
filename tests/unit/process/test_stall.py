"""The time that a process had for its work: asleep, at work, stopped, and when nobody looked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.process.stall import MAX_LOOK_SECONDS, STARVED_SECONDS, StallClock, StuckWatch


class Processes:
    """A ``/proc`` with processes whose state a test sets."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(self, pid: int, state: str, ticks: int = 0, children: tuple[int, ...] = ()) -> None:
        folder = self.path / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(f"{pid} (a b) c) {state} " + "0 " * 10 + f"{ticks} 0 " + "0 " * 30)
        (folder / "task" / str(pid) / "children").write_text(" ".join(map(str, children)))


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def seconds(processes: Processes, *looks: tuple[float, str, int]) -> tuple[float, float]:
    """Look at a process at several times, in several states, and return how long it was idle, and had time."""
    clock = StallClock(7, str(processes.path))
    for now, state, ticks in looks:
        processes.set(7, state, ticks)
        clock.look(now)
    return round(clock.idle_seconds, 3), round(clock.used_seconds, 3)


def test_a_sleeping_process_is_idle(processes: Processes) -> None:
    assert seconds(processes, (0.0, "S", 0), (0.5, "S", 0), (1.0, "S", 1)) == (1.0, 1.0)


@pytest.mark.parametrize("state", ["R", "D", "T"])
def test_a_process_that_waits_for_a_processor_or_a_disk_or_was_stopped_is_not(processes: Processes, state: str) -> None:
    assert seconds(processes, (0.0, state, 0), (0.5, state, 0), (1.0, state, 0)) == (0.0, 0.0)


def test_of_a_busy_process_only_the_processor_time_counts(processes: Processes) -> None:
    assert seconds(processes, (0.0, "R", 0), (1.0, "R", 40), (2.0, "R", 60)) == (0.0, 0.6)


def test_a_process_that_sleeps_at_the_moment_but_has_worked_was_not_idle(processes: Processes) -> None:
    assert seconds(processes, (0.0, "S", 0), (1.0, "S", 90))[0] == 0.0


def test_a_parent_of_a_busy_process_is_not_idle(processes: Processes) -> None:
    processes.set(7, "S", children=(8,))
    processes.set(8, "R")
    clock = StallClock(7, str(processes.path))
    clock.look(0.0)
    clock.look(1.0)
    assert (clock.idle_seconds, clock.used_seconds) == (0.0, 1.0)


def test_time_in_which_nobody_looked_does_not_count(processes: Processes) -> None:
    """Whoever looks was stopped itself, together with the process."""
    assert seconds(processes, (0.0, "S", 0), (100.0, "S", 0)) == (MAX_LOOK_SECONDS, MAX_LOOK_SECONDS)


def test_progress_begins_anew(processes: Processes) -> None:
    processes.set(7, "S")
    clock = StallClock(7, str(processes.path))
    clock.look(0.0)
    clock.look(1.0)
    clock.reset()
    clock.look(5.0)
    clock.look(5.5)
    assert clock.idle_seconds == 0.5


def test_the_kernel_tells_of_a_real_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import os; os.read(0, 1)"], stdin=subprocess.PIPE)
    try:
        clock = StallClock(child.pid)
        clock.look(0.0)
        for look in range(1, 1000):  # it sleeps once it has started
            time.sleep(0.01)
            clock.look(float(look))
            if clock.used_seconds:
                break
        assert 0 < clock.used_seconds <= 1.0
    finally:
        child.communicate()
    idle = clock.idle_seconds
    clock.look(2000.0)
    assert clock.idle_seconds > idle, "a process that is gone does nothing"


def test_a_process_is_stuck_when_it_sleeps_for_too_long_without_progress() -> None:
    child = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=-1)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.1)  # until it sleeps
        watch = StuckWatch(10.0)
        looks = [watch.look(child.pid, now / 4, has_progress=now == 20) for now in range(80)]
        assert looks.index(True) > 4 * (5 + 10), "5 s until the progress, then 10 s"
    finally:
        child.communicate(b"\n")


def test_a_stopped_process_is_given_up_in_the_end() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        watch = StuckWatch(10.0)
        assert not any(watch.look(child.pid, float(now), has_progress=False) for now in range(round(STARVED_SECONDS)))
        assert watch.look(child.pid, STARVED_SECONDS + 1.0, has_progress=False)
    finally:
        child.kill()
        child.communicate()


def test_a_process_that_is_not_running_yet_is_not_stuck_at_once() -> None:
    assert not StuckWatch(10.0).look(0, 10 * STARVED_SECONDS, has_progress=False)
