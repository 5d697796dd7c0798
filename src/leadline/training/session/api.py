"""Module-level API of capture: the session of this process, ``leadline.log`` and ``leadline.mode``."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from leadline.errors import LeadlineError, RunNotFoundError
from leadline.instrumentation.forking import makes_copy
from leadline.records.formatting import printable
from leadline.records.manifest import Manifest
from leadline.records.names import MODES
from leadline.store import layout
from leadline.store.documents import read_document
from leadline.store.node_lock import node_name
from leadline.training.session.session import Session

if TYPE_CHECKING:
    from leadline.config.run_config import RunConfig

_SCALARS: Final = "scalars"

_current: Session | None = None
_lock = threading.Lock()


def is_disabled() -> bool:
    """Return whether ``LEADLINE_DISABLED`` disables Leadline."""
    return os.environ.get("LEADLINE_DISABLED", "") not in ("", "0")


def start(run: str, imported_ns: int | None = None, imported: str | None = None) -> Session | None:
    """Begin to capture into an existing run; the previous session of this process is closed first.

    Args:
        imported_ns, imported: See ``Session``.
    Raises:
        RunNotFoundError: There is no such run.
    """
    global _current
    if is_disabled():
        return None
    data = read_document(os.path.join(run, layout.MANIFEST))
    if data is None:
        raise RunNotFoundError(f"there is no run at {run}: it has no {layout.MANIFEST}")
    stop_current()
    with _lock:
        _current = Session(os.path.abspath(run), Manifest.from_dict(data), node_name(), imported_ns, imported)
    return _current


def stop_current() -> None:
    """Close the session of this process, if there is one."""
    global _current
    with _lock:
        session, _current = _current, None
    if session is not None:
        session.close()


def forget(closed: Session) -> None:
    """Release a session that was closed."""
    global _current
    with _lock:
        if _current is closed:
            _current = None


def current() -> Session | None:
    """Return the session of this process, if there is one."""
    return _current


def join(
    config: RunConfig | None = None, imported_ns: int | None = None, imported: str | None = None
) -> Session | None:
    """Begin to capture into the run that ``LEADLINE_RUN`` names, creating it if it does not exist yet.

    Args:
        config: The configuration of a new run; None: the defaults.
        imported_ns, imported: See ``Session``.
    Raises:
        LeadlineError: The run cannot be created or joined.
    """
    from leadline.training.session.launch_agent import join as join_run

    return start(join_run(os.environ["LEADLINE_RUN"], config), imported_ns, imported)


def attach_from_environment(framework: str) -> None:
    """Join the run that ``LEADLINE_RUN`` names. Called once a framework has been imported; never raises."""
    try:
        join(None, time.perf_counter_ns(), framework)
    except LeadlineError as error:
        report_disabled(str(error))
    except Exception as error:  # noqa: BLE001 - the guard of the attachment itself
        report_disabled(f"{type(error).__name__}: {error}")


def report_disabled(why: str) -> None:
    """Say in one line on standard error that nothing is captured in this process."""
    from leadline.config.secrets import scrub

    sys.stderr.write(f"leadline  capture disabled in this process: {printable(scrub(why))}\n")


def _in_forked_child() -> None:
    """Give a forked child a session of its own, which writes nothing until its first step; a copy to test has none."""
    global _current, _lock
    _lock = threading.Lock()
    parent, _current = _current, None
    if parent is None:
        return
    parent.abandon()
    if makes_copy():
        return
    _current = Session(parent.run, parent.manifest, parent.node)


os.register_at_fork(after_in_child=_in_forked_child)


def log(values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
    """Record scalars by name: ``leadline.log(accuracy=0.93)``; of several values of a step the last one is kept.

    What is logged before the end of a step belongs to that step, what is logged after it to the step that has ended.
    Without a session nothing happens. Reading a value on an accelerator waits for it.

    Args:
        values: A mapping, for names that are not identifiers.
        named: Names and numbers (or tensors of one element).
    """
    session = _current
    if session is not None:
        session.guard.run(session.recorder.log, {**(values or {}), **named}, _SCALARS)


class mode:
    """Set the mode of the following steps; in a ``with`` block, of the steps inside it.

    Args:
        name: ``train``, ``eval`` or ``predict``.
    Raises:
        LeadlineError: There is no such mode.
    """

    def __init__(self, name: str) -> None:
        if name not in MODES[:3]:
            raise LeadlineError(f"no mode named {name!r}; there are {', '.join(MODES[:3])}")
        self._previous = self._set(name)

    def __enter__(self) -> mode:
        return self

    def __exit__(self, *exc: object) -> None:
        restore_mode(self._previous)

    @staticmethod
    def _set(name: str) -> str:
        previous = _current.guard.run(_current.recorder.set_mode, name) if _current is not None else None
        return previous or "train"


def restore_mode(name: str) -> None:
    """Return to a mode: what is logged next still belongs to the step that ended."""
    session = _current
    if session is not None:
        session.guard.run(session.recorder.set_mode, name, is_announced=False)
