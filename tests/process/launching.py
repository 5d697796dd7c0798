"""Helpers that launch real trainings with ``leadline run`` and read their runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

import leadline
from leadline.reader.run import Run
from leadline.store.documents import read_document

sys.path.append(str(Path(__file__).parents[1]))  # also without pytest, in programs that import this module
from fork_server import client

SCRIPTS = Path(__file__).parent / "scripts"
LEADLINE = (sys.executable, "-m", "leadline")
CONSOLE_SCRIPT = str(Path(sys.executable).parent / "leadline")
MXNET = str(Path(__file__).parents[2] / ".venvs" / "mxnet" / "bin" / "python")
needs_mxnet = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="MXNet needs Python 3.11")
ON_JAX, ON_TENSORFLOW = client.SETTINGS["jax"], client.SETTINGS["tensorflow,keras"]
"""Variables of trainings with these frameworks, with which they are forked and compile quickly."""
_CACHE = "LEADLINE_CACHE"
PATIENCE = 300.0
"""Timeout in seconds of a launched process; generous, because the machine may be busy."""


@dataclass(frozen=True)
class Ended:
    """A finished command."""

    status: int
    out: str
    err: str
    root: Path

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def said(self) -> list[str]:
        """Lines that Leadline wrote to the terminal."""
        return [line for line in self.err.splitlines() if line.startswith("leadline")]

    @property
    def run(self) -> Run:
        return only_run(self.root)

    def show(self) -> dict[str, Any]:
        return show(self.run.path)


def environment(**changes: str) -> dict[str, str]:
    """Return the current environment with Leadline's cache, but no other variable of it; reports are not rendered."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LEADLINE") or key == _CACHE}
    return clean | {"OMP_NUM_THREADS": "1", "LEADLINE_REPORT": "0"} | changes


def command(options: Sequence[str], *job: str, root: Path) -> list[str]:
    """Return a ``leadline run`` command; the budget is off by default, because a busy machine inflates the overhead."""
    budget = () if "--budget" in options else ("--budget", "off")
    return [*LEADLINE, "run", "--out", str(root / "runs"), *budget, *options, "--", *job]


def script(name: str) -> str:
    return str(SCRIPTS / name)


def bare(name: str, *arguments: str, folder: Path, **changes: str) -> Ended:
    """Run a script without Leadline."""
    return finish([sys.executable, script(name), *arguments], folder, env=environment(**changes))


def watched(
    options: tuple[str, ...] | list[str], *job: str, folder: Path, given: str | None = None, **changes: str
) -> Ended:
    """Run a command under ``leadline run`` until it ends."""
    return finish(command(options, *job, root=folder), folder, env=environment(**changes), given=given)


def finish(
    words: list[str], folder: Path, *, env: dict[str, str], given: str | None = None, patience: float = PATIENCE
) -> Ended:
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(given, timeout=patience)
    except BaseException:
        end_all(process)
        raise
    return Ended(process.returncode, out, err, folder / "runs")


@contextmanager
def started(options: tuple[str, ...] | list[str], *job: str, folder: Path, **changes: str) -> Iterator[Running]:
    """Start a command under ``leadline run``; it is killed if it still runs at the end of the block."""
    with tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen(
            command(options, *job, root=folder),
            cwd=folder,
            env=environment(**changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
        )
        running = Running(process, folder, messages)
        try:
            yield running
        finally:
            if process.poll() is None:
                end_all(process)


class Running:
    """A running command; the started process is its agent."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, messages: IO[str]) -> None:
        self.process, self.folder, self._messages = process, folder, messages

    @property
    def err(self) -> str:
        """What was written to the standard error so far."""
        size = os.fstat(self._messages.fileno()).st_size
        return os.pread(self._messages.fileno(), size, 0).decode()

    @property
    def agent(self) -> int:
        return self.process.pid

    def job(self) -> int:
        """The pid of the training, as recorded by the agent."""
        document = wait_for(lambda: self._status().get("job_pid"), "the job")
        return int(document)

    def process_of(self, module: str) -> int:
        """Return the newest descendant that runs a module."""
        return int(wait_for(lambda: max(self._running(module), default=0), module))

    def flushed_steps(self) -> int:
        """Return the number of train steps that the training has reported."""
        paths = (self.folder / "runs").glob("*/workers/*.json")
        documents = [read_document(str(path)) or {} for path in paths]
        return max((document.get("steps", {}).get("train", 0) for document in documents), default=0)

    def has_recorded(self, steps: int, *tensors: str) -> bool:
        """Return whether the losses and some tensors of the first steps can be read.

        What a worker reports may be ahead of what it has written: it trains on while its writer writes.
        """
        run, wanted = only_run(self.folder / "runs"), set(range(steps))
        named = run.tensor_names(collection="losses")
        if not named or not set(tensors) <= set(run.tensor_names()):
            return False
        if not all(wanted <= set(run.tensor(name).steps()) for name in tensors):
            return False
        return all(wanted <= set(losses(run, name)) for name in named)  # a raw tensor may be there before its row

    def wait(self) -> Ended:
        out, _ = self.process.communicate(timeout=PATIENCE)
        return Ended(self.process.returncode, out, self.err, self.folder / "runs")

    def _running(self, module: str) -> list[int]:
        return [pid for pid in descendants(self.agent) if module in arguments(pid)]

    def _status(self) -> dict[str, Any]:
        paths = (self.folder / "runs").glob("*/status.json")
        return next((read_document(str(path)) or {} for path in paths), {})


def end_all(process: subprocess.Popen[str]) -> None:
    """Kill a process and all its descendants."""
    for pid in [*descendants(process.pid), process.pid]:
        end(pid)
    process.communicate(timeout=PATIENCE)


def end(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


def arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [pid]
    for ancestor in found:
        found += [child for child, parent in parents.items() if parent == ancestor]
    return found[1:]


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Ask until a condition holds; asking takes a fifth of the time at most, for it delays what is waited for."""
    limit = time.monotonic() + PATIENCE
    while (began := time.monotonic()) < limit:
        found = condition()
        if found:
            return found
        time.sleep(max(0.02, 4 * (time.monotonic() - began)))
    raise AssertionError(f"never came: {what}")


def only_run(root: Path) -> Run:
    """Return the only run below a root."""
    names = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    assert len(names) == 1, f"runs in {root}: {names}"
    return leadline.open_run(root / names[0])


def show(run: str | Path) -> dict[str, Any]:
    """Return the output of ``leadline show --json``, called in this process, which saves the start of another one."""
    from typer.testing import CliRunner

    from leadline.cli.app import application

    done = CliRunner().invoke(application("show"), ["show", "--json", str(run)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return dict(json.loads(done.stdout))


def rule(said: dict[str, Any], name: str) -> dict[str, Any]:
    return next(dict(rule) for rule in said["rules"] if rule["name"] == name)


def losses(run: Run, name: str | None = None, worker: str | None = None) -> dict[int, float]:
    """Return a loss by train step; the name may be omitted if there is only one."""
    if name is None:
        (name,) = run.tensor_names(collection="losses")
    rows = run.scalars(name).to_pylist()
    return {row["step"]: row["value"] for row in rows if row["mode"] == "train" and worker in (None, row["worker"])}
