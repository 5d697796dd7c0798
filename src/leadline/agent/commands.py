"""Execution of the commands that ``run_command`` actions request: one at a time, outside the job."""

from __future__ import annotations

import math
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.agent.signals import KILL_AFTER_SECONDS, SignalGate, send
from leadline.monitor.processes import Identity, list_pids, read_stat
from leadline.process.child import Child
from leadline.process.interpreter import users_environment
from leadline.records.documents import ManifestDocument
from leadline.records.formatting import duration
from leadline.records.request import Answer, ExecuteCommand
from leadline.store import layout
from leadline.store.control import read_requests
from leadline.store.documents import PRIVATE_FILE, encode, make_subfolder
from leadline.training.bootstrap import SITE

MAX_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 16

_JOB_VARIABLES: Final = ("LEADLINE_RUN", "LEADLINE_NODE", "LEADLINE_DISABLED")
"""Variables that would make the command a part of the run that it reports on."""
_EVENT_FIELDS: Final = (
    "id",
    "kind",
    "run",
    "uri",
    "rule",
    "status",
    "previous",
    "verdict",
    "why",
    "job_status",
    "step",
    "worker",
    "message",
    "suggestion",
)
"""The fields of the notification that are in the command's environment; its standard input has all fields."""
_MAX_CHARACTERS: Final = 4096
"""The length of one field in the environment, whose size the system limits."""
_ID: Final = re.compile(r"[0-9A-Za-z-]+")
_IN_FOLDER: Final = 'cd -- "$0" && exec /bin/sh -c "$1"'
_CLOSE_SECONDS: Final = 0.2
_DRAIN_SECONDS: Final = 0.05
"""How long the last output of a command may take to reach its file, unless a child of the command still prints."""


@dataclass(slots=True)
class RunningCommand:
    """A command in execution."""

    request: ExecuteCommand
    output: Output
    child: Child
    """Its shell; the pid is the id of its session as well."""
    began: float
    kill_at: float = math.inf
    """When SIGKILL follows SIGTERM."""
    why_terminated: str = ""
    """Why it was terminated; empty: it was not."""


class Commands:
    """Runs requested commands in the order of the requests.

    **Only commands of the user** - a command must be among the actions of the manifest as it was when this agent
    started. Neither a request that was put into the run directory by others nor a manifest that changed later makes
    the agent run anything else.

    **Only requests to this agent** - requests that are older than this agent were meant for another agent or run.

    **Outside the job** - each command has its own session, so that its processes are not counted as the job's. It
    receives no signals from the terminal and does not end with the job.

    Args:
        manifest: The manifest as it was before the job started.
        environment: The environment of the agent.
        answer: Called with a request and what became of it.
    """

    def __init__(
        self,
        run: str,
        manifest: ManifestDocument,
        environment: Mapping[str, str],
        gate: SignalGate,
        *,
        answer: Callable[[ExecuteCommand, Answer], None],
    ) -> None:
        self._run, self._gate, self._answer = run, gate, answer
        self._allowed, self._old_ids = _commands_of(manifest), _request_ids(run)
        self._folder = manifest.folder or os.getcwd()
        self._environment = _without_job_variables(environment)
        self._queue: deque[ExecuteCommand] = deque()
        self._running: RunningCommand | None = None
        self._outputs: list[Output] = []

    @property
    def is_idle(self) -> bool:
        """Whether no command is running or queued."""
        return self._running is None and not self._queue

    def take(self, request: ExecuteCommand) -> None:
        """Queue a command, or refuse it."""
        if not _ID.fullmatch(request.id):
            return  # the id is used in file names and must not contain a path
        if request.command not in self._allowed:
            self._answer(request, Answer("refused", "the run was not started with that command"))
            return
        if request.id in self._old_ids:
            self._answer(request, Answer("refused", "it was requested before this agent started"))
            return
        self._queue.append(request)

    def advance(self, now: float) -> None:
        """Supervise the running command and start the next one, without waiting."""
        if self._running is not None:
            self._supervise(self._running, now)
        while self._running is None and self._queue:
            self._begin(self._queue.popleft(), now)

    def end(self, now: float) -> None:
        """Terminate the running command and refuse the queued ones."""
        while self._queue:
            self._answer(self._queue.popleft(), Answer("refused", "the run had ended"))
        if self._running is not None and not self._running.why_terminated:
            self._terminate(self._running, now, "terminated at the end of the run")

    def close(self) -> None:
        """Wait briefly for the rest of the output."""
        for output in self._outputs:
            output.await_end(_CLOSE_SECONDS)

    def _begin(self, request: ExecuteCommand, now: float) -> None:
        try:
            output = Output(os.path.join(self._run, layout.command_output(request.id)))
        except FileExistsError:
            self._answer(request, Answer("refused", "another agent has started it"))
            return
        try:
            child = self._start(request, output)
        except OSError as error:
            output.abandon()
            self._answer(request, Answer("failed", f"cannot be started: {error.strerror}"))
            return
        output.begin()
        self._outputs = [*self._outputs, output]
        child.deadline = now + request.timeout
        self._running = RunningCommand(request, output, child, now)

    def _start(self, request: ExecuteCommand, output: Output) -> Child:
        notification = request.notice
        arguments = ["/bin/sh", "-c", _IN_FOLDER, self._folder, request.command]
        standard_input = os.memfd_create("notice", os.MFD_CLOEXEC)
        try:
            os.write(standard_input, encode(notification) + b"\n")
            os.lseek(standard_input, 0, os.SEEK_SET)
            streams = {0: standard_input, 1: output.writing, 2: output.writing}
            environment = self._environment | event_environment(notification)
            return self._gate.spawn(arguments, environment, has_own_session=True, streams=streams)
        finally:
            os.close(standard_input)

    def _supervise(self, running: RunningCommand, now: float) -> None:
        child = running.child
        if child.code is None and not running.why_terminated and child.is_overdue(now):
            self._terminate(running, now, f"timed out after {duration(running.request.timeout)}")
        if running.why_terminated:
            is_alive = bool(_members(child.pid))
            if is_alive and now >= running.kill_at:
                _signal(child.pid, signal.SIGKILL)
            if child.code is None or (is_alive and now < running.kill_at):
                return
        if child.code is not None:
            self._finish(running, child.code, now)

    def _terminate(self, running: RunningCommand, now: float, why: str) -> None:
        running.why_terminated, running.kill_at = why, now + KILL_AFTER_SECONDS
        _signal(running.child.pid, signal.SIGTERM)

    def _finish(self, running: RunningCommand, code: int, now: float) -> None:
        self._running = None
        running.output.await_end(_DRAIN_SECONDS)
        if not _members(running.child.pid):
            self._gate.sessions.discard(running.child.pid)  # the system may reuse the number
        outcome = running.why_terminated or f"{_describe_exit(code)} after {duration(now - running.began)}"
        is_done = code == 0 and not running.why_terminated
        path = layout.command_output(running.request.id)
        suffix = f"; output: {path}" if running.output.has_printed else ""
        self._answer(running.request, Answer("done" if is_done else "failed", f"{outcome}{suffix}"))


def event_environment(notification: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a notification as variables: ``LEADLINE_EVENT_RULE`` …; empty where a field is absent."""
    return {f"LEADLINE_EVENT_{key.upper()}": _text(notification.get(key)) for key in _EVENT_FIELDS}


def _text(value: Any) -> str:
    text = "" if value is None else str(value)
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:_MAX_CHARACTERS]


def _request_ids(run: str) -> set[str]:
    """Return the ids of the requests that exist."""
    try:
        return {request.id for request in read_requests(run)}
    except OSError:  # the agent's inbox reports it
        return set()


def _commands_of(manifest: ManifestDocument) -> set[Any]:
    """Return the commands that the user specified when the run was started."""
    parameters = [action.parameters for action in manifest.actions if action.action == "run_command"]
    return {values["command"] for values in parameters if "command" in values}


def _without_job_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a process is not a part of the job."""
    result = {key: value for key, value in users_environment(environment).items() if key not in _JOB_VARIABLES}
    if "PYTHONPATH" in result:
        entries = [entry for entry in result.pop("PYTHONPATH").split(os.pathsep) if entry != SITE]
        result |= {"PYTHONPATH": os.pathsep.join(entries)} if entries else {}
    return result


def _members(session: int) -> list[Identity]:
    """Return the running processes of a session."""
    stats = (read_stat(pid) for pid in list_pids())
    return [stat.identity for stat in stats if stat is not None and stat.session == session and stat.is_alive]


def _signal(session: int, number: int) -> None:
    for identity in _members(session):
        send(identity, number)


def _describe_exit(code: int) -> str:
    return f"exit status {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


class Output:
    """A pipe for the output of a command, and a thread that copies it to a file.

    The pipe keeps a command that prints without end from filling the disk that the training writes to. If the file
    cannot be created, the command runs all the same and its output is dropped.

    Raises:
        FileExistsError: The file exists already.
    """

    def __init__(self, path: str, max_bytes: int = MAX_BYTES) -> None:
        self._file = _create(path)
        self._remaining_bytes = max_bytes
        self._is_truncated = False
        self.has_printed = False
        """Whether anything was written to the file."""
        self._reading, self.writing = os.pipe()
        """``writing`` is the end that the command gets."""
        self._thread = threading.Thread(target=self._copy, name="leadline-output", daemon=True)

    def begin(self) -> None:
        """Start copying; the command has its end of the pipe."""
        os.close(self.writing)
        self._thread.start()

    def abandon(self) -> None:
        """Close everything: the command could not be started."""
        os.close(self.writing)
        os.close(self._reading)
        if self._file is not None:
            os.close(self._file)

    def await_end(self, seconds: float) -> None:
        """Wait until all output is in the file; a child that the command left behind may print for ever."""
        self._thread.join(seconds)

    def _copy(self) -> None:
        while data := os.read(self._reading, _CHUNK_BYTES):
            self._write(data)
        os.close(self._reading)
        if self._file is not None:
            os.close(self._file)

    def _write(self, data: bytes) -> None:
        if self._file is None or self._is_truncated:
            return
        kept = data[: self._remaining_bytes]
        self._remaining_bytes -= len(kept)
        if len(kept) < len(data):
            self._is_truncated = True
            kept += b"\n(leadline: output truncated here)\n"
        try:
            os.write(self._file, kept)
            self.has_printed = True
        except OSError:  # the disk is full: the rest is read and dropped, so that the command is not blocked
            self._is_truncated = True


def _create(path: str) -> int | None:
    """Create a private file and return its descriptor; None: it cannot be created.

    Raises:
        FileExistsError: The file exists already.
    """
    try:
        make_subfolder(os.path.dirname(path))
    except OSError:
        return None
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError:
        raise
    except OSError:
        return None
