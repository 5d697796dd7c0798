"""A supervised child process: its streams, messages, limits and end."""

from __future__ import annotations

import multiprocessing.connection
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.process.child import Child, describe_exit

PATIENCE_SECONDS = 60.0
ECHOING = """
from leadline.process import messages
messages.become_worker()
for message in messages.incoming():
    messages.send({"echo": message})
messages.send({"closed": True})
"""
HELD_BY_A_CHILD = """
import subprocess
from leadline.process import messages
for message in messages.incoming():
    messages.send({"pid": subprocess.Popen(["sleep", "600"], close_fds=False).pid})
    break
"""


def python(code: str, **options: object) -> Child:
    return Child([sys.executable, "-c", code], **options)  # type: ignore[arg-type]


def wait_until(holds: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def test_standard_streams_are_empty_unless_they_are_given(tmp_path: Path) -> None:
    path = tmp_path / "printed"
    code = "import os, sys; print(sys.stdin.read() == '', os.readlink('/proc/self/fd/1')); sys.stderr.write('error')"
    with open(path, "wb") as file:
        child = python(code, streams={2: file.fileno()})
        assert child.wait() == 0
    assert path.read_text() == "error"
    with open(path, "wb") as file:
        child = python(code, streams={1: file.fileno()})
        assert child.wait() == 0
    assert path.read_text().split() == ["True", str(path)]


def test_descriptors_may_be_exchanged(tmp_path: Path) -> None:
    """Each descriptor arrives under its number, even if the numbers are those of other ones."""
    descriptors = [os.open(tmp_path / name, os.O_CREAT | os.O_RDWR) for name in "abc"]
    rotated = dict(zip(descriptors, [*descriptors[1:], descriptors[0]], strict=True))
    code = "import os, sys; [os.write(int(number), number.encode()) for number in sys.argv[1:]]"
    child = Child([sys.executable, "-c", code, *map(str, descriptors)], streams=rotated)
    assert child.wait() == 0
    for theirs, ours in rotated.items():
        assert os.pread(ours, 100, 0) == str(theirs).encode()
    for descriptor in descriptors:
        os.close(descriptor)


def test_messages_are_echoed_in_order_until_hanging_up() -> None:
    before = open_descriptors()
    child, answers = python(ECHOING, has_messages=True), []
    sent = [{"number": number, "text": "ü" * 200_000 * (number == 1)} for number in range(3)]
    for message in sent:
        child.send(message)
    while len(answers) < len(sent):
        child.flush()
        if multiprocessing.connection.wait([child.descriptor], 0.01):
            answers += child.receive()
    assert answers == [{"echo": message} for message in sent]
    child.hang_up()
    while not child.has_hung_up:
        answers += child.receive()
    assert answers[-1] == {"closed": True}
    assert child.wait() == 0
    child.close()
    assert open_descriptors() == before


def test_a_child_that_reads_nothing_does_not_block_the_sender() -> None:
    child = python("import time; time.sleep(600)", has_messages=True)
    for _ in range(10):
        child.send({"text": "x" * 100_000})
    child.close()
    assert child.code == -signal.SIGKILL


def test_messages_to_a_child_that_has_ended_are_dropped_and_its_end_is_noticed() -> None:
    child = python("", has_messages=True)
    child.wait()
    child.send({"text": "x"})
    assert child.receive() == []
    assert child.has_hung_up
    child.close()


def test_a_program_that_a_worker_starts_does_not_keep_its_pipes_open() -> None:
    child = python(HELD_BY_A_CHILD, has_messages=True)
    child.send({})
    answers = child.receive()
    assert child.wait() == 0
    assert child.receive() == []
    assert child.has_hung_up
    os.kill(answers[0]["pid"], signal.SIGKILL)
    child.close()


@pytest.mark.parametrize(
    ("code", "status", "description"),
    [
        ("", 0, "exited with status 0"),
        ("import sys; sys.exit(7)", 7, "exited with status 7"),
        ("import os; os.kill(os.getpid(), 15)", -15, "was killed by SIGTERM"),
    ],
)
def test_the_exit_status_tells_how_it_ended(code: str, status: int, description: str) -> None:
    child = python(code)
    assert child.wait() == status
    assert (child.poll(), child.code) == (status, status)
    assert describe_exit(status) == description


def test_a_program_that_does_not_exist_leaves_nothing() -> None:
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        Child(["/no/such/program"], has_messages=True, keeps_errors=True)
    assert open_descriptors() == before


def test_the_last_line_of_its_errors_is_kept_without_a_prefix() -> None:
    child = python("import sys; sys.stderr.write('w' * 300_000 + '\\nleadline: no disk here\\n')", keeps_errors=True)
    child.wait()
    assert child.error_line == "no disk here"
    child.close()
    silent = python("", keeps_errors=True)
    silent.wait()
    assert silent.error_line == "unknown error"
    silent.close()


def test_waiting_for_some_time_and_the_deadline() -> None:
    child = python("import time; time.sleep(600)")
    assert child.wait_for(0.05) is None
    assert not child.is_overdue(1e12)
    child.deadline = 100.0
    assert not child.is_overdue(99.9)
    assert child.is_overdue(100.0)
    child.close()
    assert child.wait_for(0.0) == -signal.SIGKILL


def test_it_is_killed_from_another_thread_while_one_waits() -> None:
    child = python("import time; time.sleep(600)")
    codes: list[int] = []
    waiting = threading.Thread(target=lambda: codes.append(child.wait()))
    waiting.start()
    time.sleep(0.05)
    child.kill()
    waiting.join(PATIENCE_SECONDS)
    assert codes == [-signal.SIGKILL]
    child.kill()
    child.close()


def test_signals_that_this_process_blocks_are_blocked_unless_a_mask_is_given() -> None:
    code = "import signal, sys; sys.exit(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        assert python(code).wait() == len(before | {signal.SIGUSR1})
        assert python(code, mask=()).wait() == 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_broken_pipe_ends_a_program_as_usual() -> None:
    """Python ignores SIGPIPE; ``yes`` would report an error instead of ending silently."""
    reading, writing = os.pipe()
    child = Child(["yes"], streams={1: writing})
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    assert child.wait() == -signal.SIGPIPE


@pytest.mark.parametrize("has_own_session", [False, True])
def test_its_session(has_own_session: bool) -> None:
    child = python("import time; time.sleep(600)", has_own_session=has_own_session)
    assert os.getsid(child.pid) == (child.pid if has_own_session else os.getsid(0))
    child.close()


def test_a_worker_is_killed_with_its_parent_and_ignores_ctrl_c() -> None:
    parent = f"""
import os, signal, sys
from leadline.process.child import Child
child = Child([sys.executable, "-c", {ECHOING!r}], has_messages=True)
child.send({{}})
child.receive()
os.kill(child.pid, signal.SIGINT)
child.send({{}})
child.receive()
print(child.pid, flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        assert not has_ended(worker)
        process.kill()
    wait_until(lambda: has_ended(worker))


def test_where_ended_children_are_not_kept_their_status_is_lost_but_their_end_is_noticed() -> None:
    code = """
import signal, sys
from leadline.process.child import Child
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = Child([sys.executable, "-c", "import sys; sys.exit(3)"])
sys.exit(child.wait())
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_SECONDS, check=False).returncode == 0


def test_its_memory_is_known_while_it_runs() -> None:
    child = python("import time; time.sleep(600)")
    wait_until(lambda: child.memory_bytes > 1 << 20)
    child.close()
    assert child.memory_bytes == 0
