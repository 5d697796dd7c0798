"""An ``out_dir`` in an object store: the run is written to a local folder, and uploaded while it grows."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
from typing import Final

from leadline.compat.smdebug.exceptions import SMDebugRuntimeError
from leadline.config.run_config import spool_root
from leadline.process.interpreter import own_command, own_environment
from leadline.store.upload_state import TAKEN, UNREADABLE, UploadState, read_upload, write_upload

logger: Final = logging.getLogger("leadline.compat.smdebug")
_PATIENCE_SECONDS: Final = 60.0
"""How long the end of the training waits for an upload that makes no progress."""


def local_folder(uri: str) -> str:
    """Return the local folder of what is saved at a URI."""
    identity = hashlib.sha256(uri.encode()).hexdigest()[:8]
    return os.path.join(spool_root(), f"{os.path.basename(uri)}-{identity}")


def check_unused(uri: str) -> None:
    """Raise an error if an earlier training was saved at a URI; a store that cannot be read now is tried again later.

    Raises:
        SMDebugRuntimeError: One was, or the store can never be read.
    """
    status, reason = _ask_store(uri)
    if status == TAKEN:
        raise SMDebugRuntimeError(f"out_dir {uri}: an earlier training was saved there; choose another place")
    if status == UNREADABLE:
        logger.warning("what the hook saves may be uploaded later: %s", reason)
    elif status:
        raise SMDebugRuntimeError(f"out_dir {uri}: {reason}")


def is_training_stored(uri: str) -> bool:
    """Return whether a training was saved at a URI, and has ended.

    Raises:
        SMDebugRuntimeError: The store cannot be read.
    """
    status, reason = _ask_store(uri)
    if status not in (0, TAKEN):
        raise SMDebugRuntimeError(f"{uri}: {reason}")
    return status == TAKEN


def _ask_store(uri: str) -> tuple[int, str]:
    """Return the exit status of ``leadline.trials.earlier_training``, and the reason that it gives."""
    command = own_command("leadline.trials.earlier_training", uri)
    environment = own_environment() | {"LEADLINE_DISABLED": "1"}
    asked = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return asked.returncode, asked.stderr.strip().rpartition("\n")[2].removeprefix(f"{uri}: ")


def lead_to(run: str, uri: str) -> None:
    """Let the agent of a run upload it to a URI; a warning if it is uploaded elsewhere."""
    known = read_upload(run).uri
    if known and known != uri:
        logger.warning("what the hook saves is in %s, and not in %s", known, uri)
    elif not known:
        try:
            write_upload(run, UploadState(uri=uri))
        except OSError as error:
            logger.warning("what the hook saves is in %s, and is not uploaded to %s: %s", run, uri, error.strerror)


class HookUpload:
    """The process that uploads a run which this process writes without an agent; its failures are only logged."""

    def __init__(self, run: str, uri: str) -> None:
        self._run, self._uri = run, uri
        self._process: subprocess.Popen[bytes] | None = None
        lead_to(run, uri)
        environment = own_environment() | {"LEADLINE_DISABLED": "1"}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))  # until the process has a handler
        try:
            self._process = subprocess.Popen(own_command("leadline.remote", run), env=environment)
        except OSError as error:
            logger.warning("nothing is uploaded to %s yet: %s", uri, error.strerror)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def finish(self) -> None:
        """Wait until everything is uploaded, as long as it makes progress."""
        process, uploaded = self._process, -1
        if process is not None:
            process.terminate()
        while process is not None and process.poll() is None and uploaded != read_upload(self._run).uploaded_bytes:
            uploaded = read_upload(self._run).uploaded_bytes
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        state = read_upload(self._run)
        if not state.is_complete:
            name, reason = os.path.basename(self._run), f": {state.error}" if state.error else ""
            logger.warning("not everything is in %s%s; complete it with: leadline upload %s", self._uri, reason, name)
