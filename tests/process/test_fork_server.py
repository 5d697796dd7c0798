"""A forked process does what a started one does: equal run directories, streams, signals, descriptors and ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fork_server import client
from launching import PATIENCE, Ended, environment, finish, script

import leadline
from leadline.store.documents import read_document

ENVIRONMENTS = Path(__file__).parents[2] / ".venvs"
SERVED = Path("lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages", client.FRAMEWORKS)
TRAININGS = {
    "torch": ("healthy.py",),
    "tensorflow": ("tensorflow_faults.py", "nan", "healthy"),
    "jax": ("jax_faults.py", "nan", "healthy"),
    "mxnet": ("mxnet_faults.py",),
    "trees": ("tree_faults.py", "overfit", "xgboost", "--healthy"),
}
"""A training of each framework for which there is a server."""
VARIES = re.compile(r"_ns$|_?bytes$|pid$|^(folder|judged_steps|out|processor_seconds|sampled|uri|worker)$")
"""Keys of documents whose values differ from one run to the next: times, sizes, pids, places, samples of the system."""
TIMED = ("gpu_throttling", "input_bound", "memory_growth", "stalled_training", "step_outlier", "straggler")
"""Rules on the speed and the system."""
TOLD = """
import fcntl, json, os, signal, sys, threading
print(json.dumps({
    "argv": sys.argv, "file": os.path.basename(__file__), "name": __name__, "path": sys.path[0],
    "folder": os.getcwd(), "umask": os.umask(0o77), "variables": dict(os.environ), "threads": threading.active_count(),
    "descriptors": [each for each in range(512) if os.path.exists(f"/proc/self/fd/{each}")],
    "signals": [str(signal.getsignal(number)) for number in (1, 2, 13, 15, 25)],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())), "parent": os.getppid(),
    "group": os.getpgid(0) == os.getpid(), "session": os.getsid(0) == os.getpid(), "nice": os.nice(0),
    "shown": sorted(open("/proc/self/environ").read().split("\\0")),
    "command": open("/proc/self/cmdline").read().split("\\0")[1:-1], "comm": open("/proc/self/comm").read(),
    "imported": [name for name in ("torch", "numpy", "leadline", "pyarrow", "json") if name in sys.modules],
    "encoding": [sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors, sys.stdout.line_buffering],
    "given": sys.stdin.read(), "safe": sys.flags.safe_path, "loader": type(__loader__).__name__,
}))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def forking() -> Any:
    """Have starts replaced, also without ``scripts/test``."""
    if not client.is_installed():
        client.install()


def both(start: Callable[[Path], Any], folder: Path) -> tuple[Any, Any]:
    """Do the same with forked and with started processes, and check that it was so."""
    results = []
    for way in ("forked", "started"):
        (folder / way).mkdir()
        before = dict(client.counts)
        if way == "started":
            with client.real_starts():
                results.append(start(folder / way))
        else:
            results.append(start(folder / way))
        assert client.counts[way] > before[way], way
    return results[0], results[1]


def plain(value: Any) -> Any:
    """Return a document without what differs from run to run."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if not VARIES.search(key)}
    return [plain(each) for each in value] if isinstance(value, list) else value


def documents(run: Path) -> dict[str, Any]:
    """Return the documents of a run, without those that depend on how fast it went."""
    files = [file for file in sorted(run.rglob("*.json")) if file.parent.name not in ("nodes", *TIMED)]
    found = {re.sub(r"-\d+", "", str(file.relative_to(run))): plain(read_document(str(file))) for file in files}
    summary = found["rules/summary.json"]
    del summary["time"]
    summary["rules"] = [rule for rule in summary["rules"] if rule["name"] not in TIMED]
    announced = [each for each in summary["announcements"] if each["rule"] not in TIMED]
    summary["announcements"] = [{key: each[key] for key in each if key != "id"} for each in announced]
    return found


def rows(run: Path) -> list[tuple[Any, ...]]:
    table = leadline.open_run(run).scalars()
    kept = [name for name in table.column_names if not re.search("time|worker|_ns", name)]
    found = [tuple(map(str, row.values())) for row in table.select(kept).to_pylist()]
    return sorted(row for row in found if not row[0].startswith("process/"))


def train(framework: str, folder: Path) -> Ended:
    python = str(ENVIRONMENTS / framework / "bin" / "python")
    name, *arguments = TRAININGS[framework]
    options = ["run", "--out", str(folder / "runs"), "--budget", "off", "--name", "one"]
    words = [python, "-m", "leadline", *options, "--", python, script(name), *arguments]
    settings = client.SETTINGS.get((ENVIRONMENTS / framework / SERVED).read_text().strip(), {})
    return finish(words, folder, env=environment(**settings))


@pytest.mark.parametrize("framework", TRAININGS)
def test_a_training_leaves_an_equal_run(tmp_path: Path, framework: str) -> None:
    forked, started = both(lambda folder: train(framework, folder), tmp_path)
    assert (forked.status, forked.out) == (started.status, started.out), forked.err
    one, other = (next((tmp_path / way / "runs").iterdir()) for way in ("forked", "started"))
    assert documents(one) == documents(other)
    assert rows(one) == rows(other) != []


def test_a_script_finds_what_a_started_one_finds(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(TOLD)

    def told(folder: Path) -> dict[str, Any]:
        words = [sys.executable, str(tmp_path / "told.py"), "a", "b c"]
        return dict(json.loads(finish(words, tmp_path, env=environment(ADDED="1"), given="x").out))

    forked, started = both(told, tmp_path)
    assert forked == started
    assert forked["imported"] == ["json"]


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(7)",
        "import sys; sys.exit('said')",
        "1 / 0",
        "raise KeyboardInterrupt",
        "import os; os.kill(os.getpid(), 15)",
        "import os; os._exit(3)",
        "import atexit; atexit.register(print, 'late')",
        "import threading; threading.Timer(0.2, print, ['later']).start()",
        "import nothing_of_that_name",
        "print('without an end', end='')",
        "import os; os.abort()",
        "import ctypes; ctypes.CDLL(None).on_exit(ctypes.CDLL(None).putchar, None); raise SystemExit(65)",
    ],
)
def test_a_script_ends_as_a_started_one(tmp_path: Path, program: str) -> None:
    file = tmp_path / "ending.py"
    file.write_text(program + "\n")
    forked, started = both(lambda _: finish([sys.executable, str(file)], tmp_path, env=environment()), tmp_path)
    assert (forked.status, forked.out, forked.err) == (started.status, started.out, started.err)


def test_a_launcher_is_run_as_a_started_one(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "torch.distributed.run", "--help"]
    forked, started = both(lambda _: finish(words, tmp_path, env=environment()), tmp_path)
    assert (forked.status, forked.out) == (started.status, started.out)
    assert "--nproc-per-node" in forked.out


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_is_buffered_as_in_a_started_script(tmp_path: Path, unbuffered: str) -> None:
    file = tmp_path / "printing.py"
    file.write_text("import os\nprint('first')\nos.write(1, b'second')\n")
    words = [sys.executable, str(file)]
    forked, started = both(lambda _: finish(words, tmp_path, env=environment(PYTHONUNBUFFERED=unbuffered)), tmp_path)
    assert forked.out == started.out == ("first\nsecond" if unbuffered else "secondfirst\n")


def test_a_package_beside_the_script_comes_first(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("print('mine')\n")
    (tmp_path / "importing.py").write_text("import numpy\n")
    words = [sys.executable, str(tmp_path / "importing.py")]
    forked, started = both(lambda _: finish(words, tmp_path, env=environment()), tmp_path)
    assert forked.out == started.out == "mine\n"


def test_a_process_is_a_child_that_can_be_signalled_and_waited_for(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")

    def end(_: Path) -> tuple[int, int, bool]:
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "waiting.py")],
            stdout=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        has_session = os.getsid(process.pid) == process.pid
        os.killpg(process.pid, signal.SIGTERM)
        process.stdout.close()
        return process.wait(PATIENCE), process.returncode, has_session

    forked, started = both(end, tmp_path)
    assert forked == started == (-signal.SIGTERM, -signal.SIGTERM, True)


def test_other_settings_of_a_library_are_started(tmp_path: Path) -> None:
    before = dict(client.counts)
    finish([sys.executable, script("healthy.py")], tmp_path, env=environment(OMP_NUM_THREADS="2"))
    assert client.counts == {"forked": before["forked"], "started": before["started"] + 1}
