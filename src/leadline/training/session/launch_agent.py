"""Finding or starting the agent of this process, for ``watch`` and for the run that ``LEADLINE_RUN`` names."""

from __future__ import annotations

import atexit
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from leadline.errors import ConfigurationError, LeadlineError, RunExistsError, RunNotWritableError
from leadline.process.interpreter import own_command, own_environment
from leadline.records.names import JOB_ENDED
from leadline.store import layout
from leadline.store.node_lock import acquire_lock, is_ready, mark_ready, node_name, register_process, release_lock
from leadline.store.run_state import read_status
from leadline.training.session.restarted import await_incarnation

if TYPE_CHECKING:
    from leadline.config.run_config import RunConfig

_TIMEOUT_SECONDS: Final = 60.0
_LINGER_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02


def join(location: str, config: RunConfig | None) -> str:
    """Join a run: of several concurrent processes the first creates it; the first on each node starts its agent.

    Under ``leadline run`` there is nothing to do: the agent was started before its processes.

    Args:
        location: The value of ``LEADLINE_RUN``.
        config: The configuration, in case the run does not exist yet; None: the defaults.
    Returns:
        The run directory.
    Raises:
        RunNotWritableError: The run cannot be written there.
        ConfigurationError: An option is invalid.
        RunExistsError: The run was stopped.
        LeadlineError: Another process failed to create the run.
    """
    run, node = _local_path(location), node_name()
    if os.environ.get("LEADLINE_NODE") == node:
        await_incarnation(run)
        return run
    try:
        register_process(run, node)  # before the lock is checked: an agent releases it, then looks for processes
        lock = acquire_lock(os.path.join(run, layout.node_lock(node)))
    except OSError as error:
        raise RunNotWritableError(
            f"the run cannot be written at {run}: {error.strerror}; set LEADLINE_RUN to another location"
        ) from None
    if lock is None:
        _wait_for_run(run, node)
    else:
        _launch(run, node, lock, config)
    _linger_if_needed(run)
    await_incarnation(run)
    return run


def _local_path(location: str) -> str:
    path = location.removeprefix("file://")
    if "://" in path:
        raise ConfigurationError(f"LEADLINE_RUN={location}: a run is written to a local folder; set a local path")
    return os.path.abspath(os.path.expanduser(path))


def _launch(run: str, node: str, lock: int, config: RunConfig | None) -> None:
    from leadline.config.run_config import RunConfig

    status = read_status(run)
    try:
        if status.status == "Stopped":
            by = f" by {status.stopped_by}" if status.stopped_by else ""
            raise RunExistsError(f"the run at {run} was stopped{by}; set LEADLINE_RUN to a new location")
        start_agent(replace(config or RunConfig(), at=run), lock)
        mark_ready(lock)
    except BaseException:
        release_lock(os.dup(lock), os.path.join(run, layout.node_lock(node)))
        _remove_if_empty(run, node)
        raise
    finally:
        os.close(lock)  # the agent holds it from here on


def _remove_if_empty(run: str, node: str) -> None:
    """Remove the files of a failed join, if there is no run."""
    if layout.is_run(run):
        return
    try:
        os.unlink(os.path.join(run, layout.node_processes(node)))
        os.rmdir(os.path.join(run, layout.NODES))
        os.rmdir(run)
    except OSError:  # another process is using it
        return


def _wait_for_run(run: str, node: str) -> None:
    """Wait for the run that another process of this node is creating or resuming."""
    end = time.monotonic() + _TIMEOUT_SECONDS
    while not (layout.is_run(run) and is_ready(os.path.join(run, layout.node_lock(node)))):
        if time.monotonic() > end:
            raise LeadlineError(f"another process did not create the run at {run} within {_TIMEOUT_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
        if not os.path.exists(os.path.join(run, layout.node_lock(node))) and not layout.is_run(run):
            raise LeadlineError("another process failed to create the run; see its error message")


def start_agent(config: RunConfig, lock: int | None = None) -> str:
    """Start an agent for this process; return the run directory.

    The agent is not a child of this process: a training may wait for its children.

    Args:
        config: The configuration of the run.
        lock: The lock of the node, which the agent then holds.
    Raises:
        RunNotWritableError: The run cannot be written there.
        ConfigurationError: An option is invalid.
    """
    import json
    import subprocess

    from leadline.config.launch_document import LaunchDocument

    held = ["--lock", str(lock)] if lock is not None else []
    starting = subprocess.Popen(
        own_command("leadline", "attach", "--pid", str(os.getpid()), *held),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        start_new_session=True,
        pass_fds=() if lock is None else (lock,),
        env=own_environment() | {"LEADLINE_DISABLED": "1"},
    )
    output, _ = starting.communicate(LaunchDocument(config=config, command=tuple(_command())).encode())
    answer = json.loads(output.partition(b"\n")[0] or '{"error": "the agent did not start; see its output above"}')
    if "error" in answer:
        raise (RunNotWritableError if answer.get("is_unwritable") else ConfigurationError)(answer["error"])
    return str(answer["run"])


def _command() -> list[str]:
    return [word for word in (getattr(sys, "argv", None) or [""]) if word] or ["python"]


def _linger_if_needed(run: str) -> None:
    """Let the agent finish first where the end of the last process ends all others."""
    if must_wait_for_agent():
        atexit.register(_linger, run, os.getpid())  # runs after the session's own, which is registered later


def must_wait_for_agent() -> bool:
    """Return whether the end of this process may end its agent."""
    return os.getpid() == 1 or any(name in os.environ for name in ("SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST"))


def _linger(run: str, pid: int) -> None:
    end = time.monotonic() + _LINGER_SECONDS
    while os.getpid() == pid and time.monotonic() < end:
        status = read_status(run)
        if status.status in JOB_ENDED and not (status.agent_pid and os.path.exists(f"/proc/{status.agent_pid}")):
            return
        time.sleep(_POLL_SECONDS)
