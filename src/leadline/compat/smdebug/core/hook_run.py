"""The run into which a hook of smdebug's interface saves."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from leadline.compat.smdebug import pending_writes
from leadline.compat.smdebug.core.access_layer.utils import has_training_ended
from leadline.compat.smdebug.core.stored_out_dir import HookUpload, check_unused, lead_to, local_folder
from leadline.compat.smdebug.exceptions import SMDebugRuntimeError
from leadline.compat.smdebug.profiler_settings import config_path, read_profiler_settings
from leadline.config.presets import merge
from leadline.config.profile_windows import parse_windows
from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import LeadlineError
from leadline.hook import manifest_of
from leadline.records.plan import CaptureItem
from leadline.records.profile_window import ProfileWindow
from leadline.store import layout
from leadline.store.documents import write_document
from leadline.store.run_state import join_run, read_status, write_status
from leadline.training.session import api
from leadline.training.session.worker_names import rank_number

if TYPE_CHECKING:
    from leadline.training.session.session import Session

logger: Final = logging.getLogger("leadline.compat.smdebug")
_PRESET: Final = "sagemaker"
_PRESET_SOURCE: Final = "preset"
_latest: HookRun | None = None


def check_out_dir(out_dir: object) -> str:
    """Return the folder of a hook as an absolute path, or the URI of one in an object store.

    Raises:
        RuntimeError: None is given.
        ConfigurationError: It is a URI that cannot be used.
        SMDebugRuntimeError: A run that has ended, or a trial, is there already, or the object store can never be read.
    """
    if out_dir is None:
        raise RuntimeError("out_dir is a required argument")
    text = parse_place(str(out_dir))
    if is_uri(text):
        check_unused(text)
        return text
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.islink(path) and has_training_ended(path):
        raise SMDebugRuntimeError(f"out_dir {path}: an earlier training was saved there; choose another folder")
    return path


def rank() -> int:
    """Return the rank of this process in a distributed job; 0 outside one."""
    import sys

    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return rank_number(None)


class HookRun:
    """Captures into a folder of its own; under ``leadline run`` into the launcher's run, to which the folder links.

    Args:
        path: The run directory, or the URI to which it is uploaded. Several processes of a job may give the same.
        items: What is captured.
    Raises:
        RunNotWritableError: The run cannot be written there.

    Attributes:
        session: The session of this process; None: Leadline is disabled.
    """

    def __init__(self, path: str, items: tuple[CaptureItem, ...]) -> None:
        self._items, self._uri = items, path if is_uri(path) else ""
        self._path = local_folder(path) if self._uri else path
        self._replaced: tuple[CaptureItem, ...] = ()
        """What the hook captures instead of the run's preset."""
        self._is_own = False
        self._upload: HookUpload | None = None
        session = api.current()
        if _latest is not None:
            _latest.close()
            session = api.current()
        if session is None and os.environ.get("LEADLINE_RUN") and not api.is_disabled():
            session = api.join()
        if session is not None:
            self._replaced = _defaults(session)
            session.replace_items(self._replaced, items)
            if self._uri:
                lead_to(session.run, self._uri)
            else:
                _link(path, session.run)
        elif not api.is_disabled():
            session = self._start()
        self.session: Session | None = session
        if session is not None:
            pending_writes.register(session.run, session.flush, self._uri)
        _remember(self)

    def _start(self) -> Session | None:
        manifest = manifest_of(self._path, merge((), self._items, (), root=os.path.dirname(self._path)))
        manifest = replace(manifest, profile=_profile_windows())
        if join_run(self._path, manifest) and self._uri:
            self._upload = HookUpload(self._path, self._uri)
        if read_status(self._path).status == "Starting":
            write_status(self._path, "InProgress", manifest.started_ns)
        self._is_own = True
        atexit.register(self.close)
        return api.start(self._path)

    def describe(self, document: Mapping[str, Any]) -> None:
        """Record the collections of the hook, for readers of the trial; a full disk costs only that."""
        if self.session is not None:
            try:
                write_document(os.path.join(self.session.run, layout.HOOK_COLLECTIONS), dict(document))
            except OSError as error:
                self.session.context.note(f"the collections of the hook were not recorded: {error.strerror}")

    def change(self, items: tuple[CaptureItem, ...]) -> None:
        """Capture other items from now on."""
        if self.session is not None and items != self._items:
            before, self._items = self._items, items
            self.session.replace_items(before, items)

    def close(self) -> None:
        """Stop capturing into a folder of its own."""
        session, self.session = self.session, None
        if session is None:
            return
        pending_writes.unregister(session.run)
        if not self._is_own:
            session.flush()
            session.replace_items(self._items, self._replaced)
            return
        atexit.unregister(self.close)
        session.close()
        api.forget(session)
        if read_status(self._path).job_pid == os.getpid():
            now = time.time_ns()
            write_status(self._path, "Completed", now, ended_ns=now)
        if self._upload is not None:
            self._upload.finish()


def _defaults(session: Session) -> tuple[CaptureItem, ...]:
    """Return what the preset ``sagemaker`` captures for scripts without a hook: a hook says itself what is saved."""
    manifest = session.manifest
    if manifest.preset != _PRESET:
        return ()
    return tuple(item for item in manifest.plan.items if item.source == _PRESET_SOURCE)


def _profile_windows() -> tuple[ProfileWindow, ...]:
    """Return the profile windows of ``profilerconfig.json``; a file that cannot be read costs only them."""
    try:
        return parse_windows(read_profiler_settings().windows(), config_path())
    except LeadlineError as error:
        logger.warning("nothing is profiled: %s", error)
        return ()


def _remember(run: HookRun) -> None:
    global _latest
    _latest = run


def _link(path: str, run: str) -> None:
    """Make the folder that the script names lead to the run, so that it opens as a trial."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path):
            os.rmdir(path)
        if os.path.islink(path):
            os.unlink(path)
        os.symlink(run, path, target_is_directory=True)
    except OSError as error:
        logger.warning("what the hook saves is in %s; %s cannot lead there: %s", run, path, error.strerror)
