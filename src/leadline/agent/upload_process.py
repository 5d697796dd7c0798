"""The upload of a run to an object store while it grows, in a process of its own: a slow store delays nothing here."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from leadline.agent.signals import TO_END, TO_STDERR, SignalGate
from leadline.process.child import Child
from leadline.process.interpreter import own_command, own_environment
from leadline.process.stall import StuckWatch
from leadline.records.formatting import size
from leadline.store.upload_state import read_upload

_LOOK_SECONDS: Final = 1.0
_RESTART_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 60.0
"""How long the prompt waits for an upload that makes no progress although it could."""
_SILENT_WAIT_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.05

Warn = Callable[[str], None]


class UploadProcess:
    """Keeps the upload of a run going, if the run has a destination.

    **Never affects the training** - an upload that ends early is started again, and ``leadline upload`` completes it.
    """

    def __init__(
        self,
        run: str,
        environment: Mapping[str, str],
        gate: SignalGate,
        *,
        warn: Warn,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._gate = gate
        self._warn = warn
        self._clock = clock
        self._environment = own_environment(environment) | {"LEADLINE_DISABLED": "1"}
        self._child: Child | None = None
        self._start_at = self._look_at = 0.0
        self._is_wanted = False
        """Whether the run has a destination; a hook of smdebug's interface may give it one when the training begins."""

    def poll(self, now: float) -> None:
        """Start the upload, again if it has ended."""
        if self._child is not None and self._child.code is not None:
            self._child = None
        if not self._is_wanted and now >= self._look_at:
            self._look_at = now + _LOOK_SECONDS
            self._is_wanted = bool(read_upload(self._run).uri)
        if self._is_wanted and self._child is None and now >= self._start_at:
            self._start_at = now + _RESTART_SECONDS
            self._start()

    def finish(self) -> None:
        """Wait until everything is uploaded, as long as it makes progress; a signal to end skips the wait."""
        self._is_wanted = bool(read_upload(self._run).uri)
        if not self._is_wanted:
            return
        if self._child is None or self._child.code is not None:
            self._start()
        if self._child is None:
            return
        self._child.send_signal(signal.SIGTERM)
        began, stuck = self._clock(), StuckWatch(_PATIENCE_SECONDS)
        uploaded, has_announced = -1, False
        while self._child.code is None:
            info = self._gate.wait(_POLL_SECONDS)
            self._gate.reap()
            now, state = self._clock(), read_upload(self._run)
            has_progress, uploaded = state.uploaded_bytes != uploaded, state.uploaded_bytes
            is_stuck = stuck.look(self._child.pid, now, has_progress=has_progress)
            if (info is not None and info.si_signo in TO_END) or is_stuck:
                self._child.kill()
                break
            if now - began > _SILENT_WAIT_SECONDS and not has_announced:
                has_announced = True
                self._warn(f"uploading the rest of the run to {state.uri}; Ctrl-C skips")
        state = read_upload(self._run)
        if state.warning:
            self._warn(state.warning)
        if not state.is_complete:
            waiting = f" ({size(state.pending_bytes)} at least)" if state.pending_bytes else ""
            reason = f": {state.error}" if state.error else ""
            self._warn(f"not everything was uploaded{waiting}{reason}; complete it with: leadline upload {self._name}")

    @cached_property
    def is_joint(self) -> bool:
        """Whether the agent of each node uploads, as the nodes share only the store."""
        return read_upload(self._run).is_joint

    @property
    def _name(self) -> str:
        return os.path.basename(self._run)

    def _start(self) -> None:
        try:
            command = own_command("leadline.remote", self._run)
            # a session of its own, so that Ctrl-C does not reach it before the end of the run is uploaded
            self._child = self._gate.spawn(
                command, self._environment, streams=TO_STDERR, has_own_session=True, blocked=(signal.SIGTERM,)
            )
        except OSError as error:
            self._is_wanted, self._look_at = False, float("inf")
            self._warn(f"cannot start the upload: {error.strerror}; complete it with: leadline upload {self._name}")
