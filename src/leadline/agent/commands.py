"""The commands that a run's actions have the agent run: one after the other, and never as a part of the job."""

from __future__ import annotations

import math
import os
import re
import signal
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.agent.output import Output
from leadline.agent.signals import SignalGate, send, spawn
from leadline.agent.stop_sequence import KILL_AFTER_SECONDS
from leadline.monitor.processes import Identity, list_pids, read_stat
from leadline.records.formatting import duration
from leadline.records.request import FAILED, REFUSED, Request
from leadline.store import layout
from leadline.store.control import read_requests
from leadline.store.documents import encode
from leadline.training.bootstrap import SITE

_OURS: Final = ("LEADLINE_RUN", "LEADLINE_NODE", "LEADLINE_DISABLED")
"""What would make the command a part of the run that it is told of."""
_TOLD: Final = (
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
"""What of the notice the command finds in its environment; all of it is on its standard input."""
_MOST_CHARACTERS: Final = 4096
"""Of one of them: the system limits what an environment may hold."""
_DEFAULT_SECONDS: Final = 60.0
_ID: Final = re.compile(r"[0-9A-Za-z-]+")
_IN_FOLDER: Final = 'cd -- "$0" && exec /bin/sh -c "$1"'
_FAREWELL_SECONDS: Final = 0.2
_DRAIN_SECONDS: Final = 0.05
"""That the last words of a command may take into its file; longer only where it left something behind."""


@dataclass(slots=True)
class Running:
    """The command that runs."""

    request: Request
    output: Output
    pid: int
    """Of its shell, and of its session."""
    began: float
    limit_seconds: float
    kill_at: float = math.inf
    """When SIGKILL follows, once it was told to end."""
    code: int | None = None
    """How the shell ended; -n: by signal n."""
    why_ended: str = ""
    """Why it was told to end."""


class Commands:
    """Runs requested commands, in the order in which they were asked for.

    **Only what the user wrote.** A command must be among the actions in the manifest as this agent found it when it
    began: neither a request that somebody put into a run's folder nor a manifest that changed makes it run anything.

    **Only what is asked of this agent.** What lay there when it began was asked of another, or of another's run.

    **No part of the job.** Each has a session of its own, which ``sessions`` tells to those who look for the job's
    processes; it gets no signal of the terminal, and the job's end is not its own.

    Args:
        manifest: As it was before the job.
        environment: The agent's own.
        sessions: Those of processes that are not the job's.
        answer: Takes a request and what came of it.
    """

    def __init__(
        self,
        run: str,
        manifest: Mapping[str, Any],
        environment: Mapping[str, str],
        gate: SignalGate,
        *,
        sessions: set[int],
        answer: Callable[[Request, str], None],
    ) -> None:
        self._run, self._gate, self._sessions, self._answer = run, gate, sessions, answer
        self._known, self._old = _commands_of(manifest), _ids(run)
        self._folder = str(manifest.get("folder") or os.getcwd())
        self._environment = _clean(environment)
        self._queue: deque[Request] = deque()
        self._running: Running | None = None
        self._outputs: list[Output] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        return self._running is None and not self._queue

    def take(self, request: Request) -> None:
        """Put a command in line, or refuse it."""
        if not _ID.fullmatch(request.id):
            return  # its answer could not be told from a path
        if request.parameters.get("command") not in self._known:
            self._answer(request, f"{REFUSED}the run was not started with that command")
            return
        if request.id in self._old:
            self._answer(request, f"{REFUSED}it was asked for before this agent began")
            return
        self._queue.append(request)

    def on_exit(self, pid: int, code: int) -> None:
        """A process has ended."""
        if self._running is not None and self._running.pid == pid:
            self._running.code = code

    def advance(self, now: float) -> None:
        """Do what is due; nothing here takes time."""
        if self._running is not None:
            self._look_after(self._running, now)
        while self._running is None and self._queue:
            self._begin(self._queue.popleft(), now)

    def end(self, now: float) -> None:
        """Nobody waits any longer: what runs is told to end, what waits is not begun."""
        while self._queue:
            self._answer(self._queue.popleft(), f"{REFUSED}the run had ended")
        if self._running is not None and not self._running.why_ended:
            self._terminate(self._running, now, "it was ended with the run")

    def close(self) -> None:
        """See that what was printed is written."""
        for each in self._outputs:
            each.await_end(_FAREWELL_SECONDS)

    def _begin(self, request: Request, now: float) -> None:
        try:
            output = Output(os.path.join(self._run, layout.command_output(request.id)))
        except FileExistsError:
            self._answer(request, f"{REFUSED}another agent has begun it")
            return
        try:
            pid = self._start(request, output)
        except OSError as error:
            output.abandon()
            self._answer(request, f"{FAILED}it cannot be started: {error.strerror}")
            return
        output.begin()
        self._outputs = [*self._outputs, output]
        self._sessions.add(pid)
        self._running = Running(request, output, pid, now, _limit_seconds(request))

    def _start(self, request: Request, output: Output) -> int:
        notice = request.parameters.get("notice")
        notice = notice if isinstance(notice, dict) else {}
        words = ["/bin/sh", "-c", _IN_FOLDER, self._folder, str(request.parameters["command"])]
        told = os.memfd_create("notice", os.MFD_CLOEXEC)
        try:
            os.write(told, encode(notice) + b"\n")
            os.lseek(told, 0, os.SEEK_SET)
            streams = {0: told, 1: output.writing, 2: output.writing}
            environment = self._environment | event_environment(notice)
            return spawn(words, environment, self._gate, has_own_session=True, streams=streams)
        finally:
            os.close(told)

    def _look_after(self, running: Running, now: float) -> None:
        if running.code is None and not running.why_ended and now - running.began >= running.limit_seconds:
            self._terminate(running, now, f"it still ran after {duration(running.limit_seconds)} and was ended")
        if running.why_ended:
            is_alive = bool(_members(running.pid))
            if is_alive and now >= running.kill_at:
                _signal(running.pid, signal.SIGKILL)
            if running.code is None or (is_alive and now < running.kill_at):
                return
        if running.code is not None:
            self._finish(running, now)

    def _terminate(self, running: Running, now: float, why: str) -> None:
        running.why_ended, running.kill_at = why, now + KILL_AFTER_SECONDS
        _signal(running.pid, signal.SIGTERM)

    def _finish(self, running: Running, now: float) -> None:
        self._running = None
        running.output.await_end(_DRAIN_SECONDS)
        if not _members(running.pid):
            self._sessions.discard(running.pid)  # the number may come to be another's
        how = running.why_ended or f"{_ended(running.code or 0)} after {duration(now - running.began)}"
        prefix = "" if running.code == 0 and not running.why_ended else FAILED
        where = layout.command_output(running.request.id)
        tail = f"; what it printed: {where}" if running.output.has_printed else ""
        self._answer(running.request, f"{prefix}{how}{tail}")


def event_environment(notice: Mapping[str, Any]) -> dict[str, str]:
    """What a command finds of a notice in its environment: ``LEADLINE_EVENT_RULE`` …; "" where there is nothing."""
    return {f"LEADLINE_EVENT_{key.upper()}": _text(notice.get(key)) for key in _TOLD}


def _text(value: Any) -> str:
    text = "" if value is None else str(value)
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:_MOST_CHARACTERS]


def _ids(run: str) -> set[str]:
    """The requests that are there."""
    try:
        return {each.id for each in read_requests(run)}
    except OSError:  # the agent's inbox tells of it
        return set()


def _commands_of(manifest: Mapping[str, Any]) -> set[str]:
    """The commands that the user gave when the run was started."""
    actions = [each for each in manifest.get("actions") or () if each.get("action") == "run_command"]
    return {each.get("parameters", {}).get("command") for each in actions} - {None}


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what makes a process a part of the watched job."""
    result = {key: value for key, value in environment.items() if key not in _OURS}
    if "PYTHONPATH" in result:
        entries = [each for each in result.pop("PYTHONPATH").split(os.pathsep) if each != SITE]
        result |= {"PYTHONPATH": os.pathsep.join(entries)} if entries else {}
    return result


def _limit_seconds(request: Request) -> float:
    given = request.parameters.get("timeout")
    return float(given) if isinstance(given, (int, float)) and 0 < given < math.inf else _DEFAULT_SECONDS


def _members(session: int) -> list[Identity]:
    """The running processes of a session."""
    stats = (read_stat(pid) for pid in list_pids())
    return [each.identity for each in stats if each is not None and each.session == session and each.is_alive]


def _signal(session: int, number: int) -> None:
    for identity in _members(session):
        send(identity, number)


def _ended(code: int) -> str:
    return f"exit status {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
