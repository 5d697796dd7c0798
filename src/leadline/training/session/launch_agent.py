"""Finding or starting the agent that watches this process: for ``watch``, and where ``LEADLINE_RUN`` names the run."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from leadline.errors import ConfigurationError, LeadlineError, RunExistsError
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.presence import give_lock_back, node_name, register_process, take_lock

_PATIENCE_SECONDS: Final = 60.0
_LINGER_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02


def join(place: str, wishes: Mapping[str, Any]) -> str:
    """Make this process one of a run's: one of several that come at once makes it, one of a node starts its agent.

    Under ``leadline run`` there is nothing to do: its agent is there before its processes are.

    Args:
        place: What ``LEADLINE_RUN`` says.
        wishes: What ``leadline run`` would be told, for the case that the run is not there yet.
    Returns:
        The run's folder.
    Raises:
        ConfigurationError: It cannot stand there, or a wish is wrong.
        RunExistsError: It was stopped.
        LeadlineError: Another process tried to make it and could not.
    """
    run, node = _local_path(place), node_name()
    if os.environ.get("LEADLINE_NODE") == node:
        return run
    try:
        register_process(run, node)  # before the lock is looked at: an agent gives it back, then looks here
        lock = take_lock(os.path.join(run, layout.node_lock(node)))
    except OSError as error:
        raise ConfigurationError(
            f"the run cannot be written at {run}: {error.strerror}; set LEADLINE_RUN to another place"
        ) from None
    if lock is None:
        _await_run(run, node)
    else:
        _make_agent(run, node, lock, wishes)
    _linger_where_needed(run)
    return run


def _local_path(place: str) -> str:
    path = place.removeprefix("file://")
    if "://" in path:
        raise ConfigurationError(f"LEADLINE_RUN={place}: a run is written to a local folder; name one")
    return os.path.abspath(os.path.expanduser(path))


def _make_agent(run: str, node: str, lock: int, wishes: Mapping[str, Any]) -> None:
    status = read_document(os.path.join(run, layout.STATUS)) or {}
    try:
        if status.get("status") == "Stopped":
            by = status.get("stopped_by") or "somebody"
            raise RunExistsError(f"the run at {run} was stopped by {by}; set LEADLINE_RUN to a new place")
        start_agent({**wishes, "at": run}, lock)
    except BaseException:
        give_lock_back(os.dup(lock), os.path.join(run, layout.node_lock(node)))
        _remove_if_empty(run, node)
        raise
    finally:
        os.close(lock)  # the agent holds it from here on


def _remove_if_empty(run: str, node: str) -> None:
    """Take away what joining made, where no run came of it."""
    if layout.is_run(run):
        return
    try:
        os.unlink(os.path.join(run, layout.node_processes(node)))
        os.rmdir(os.path.join(run, layout.NODES))
        os.rmdir(run)
    except OSError:  # somebody else is at it
        return


def _await_run(run: str, node: str) -> None:
    """Wait for the run that another process of this node is making."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not layout.is_run(run):
        if time.monotonic() > end:
            raise LeadlineError(f"the run at {run} did not come within {_PATIENCE_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
        if not os.path.exists(os.path.join(run, layout.node_lock(node))) and not layout.is_run(run):
            raise LeadlineError("another process could not make the run, and has said why")


def start_agent(wishes: Mapping[str, Any], lock: int | None = None) -> str:
    """Start an agent that watches this process; the run's folder.

    It is no child of this process: a training may wait for its children.

    Args:
        wishes: What ``leadline run`` would be told.
        lock: The node's lock, which it then holds.
    Raises:
        ConfigurationError: A wish is wrong.
    """
    import json
    import subprocess

    command = [sys.executable, "-m", "leadline", "attach", "--pid", str(os.getpid())]
    command += ["--lock", str(lock)] if lock is not None else []
    starting = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        start_new_session=True,
        pass_fds=() if lock is None else (lock,),
        env={**os.environ, "LEADLINE_DISABLED": "1"},
        text=True,
    )
    said, _ = starting.communicate(json.dumps({**wishes, "command": _command()}))
    answer = json.loads(said.partition("\n")[0] or '{"error": "the agent did not start; its words stand above"}')
    if "error" in answer:
        raise ConfigurationError(answer["error"])
    return str(answer["run"])


def _command() -> list[str]:
    return [each for each in (getattr(sys, "argv", None) or [""]) if each] or ["python"]


def _linger_where_needed(run: str) -> None:
    """Where the last process that ends takes all others with it, let the agent come to its end first."""
    is_ephemeral = os.getpid() == 1 or any(each in os.environ for each in ("SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST"))
    if is_ephemeral:
        atexit.register(_linger, run, os.getpid())  # runs after the session's own, which is registered later


def _linger(run: str, pid: int) -> None:
    end = time.monotonic() + _LINGER_SECONDS
    while os.getpid() == pid and time.monotonic() < end:
        status = read_document(os.path.join(run, layout.STATUS)) or {}
        agent = status.get("agent_pid")
        if status.get("status") in JOB_ENDED and not (agent and os.path.exists(f"/proc/{agent}")):
            return
        time.sleep(_POLL_SECONDS)
