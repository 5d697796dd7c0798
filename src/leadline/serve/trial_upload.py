"""The tensors of a job in S3: uploaded while it runs, as a trial that smdebug's reader opens."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from leadline.compat.export.trial import GrowingTrial
from leadline.errors import LeadlineError
from leadline.records.json_object import JsonObject
from leadline.serve.job_folder import JobFolder, JobSpecification
from leadline.serve.s3_files import S3Files, join
from leadline.store import layout
from leadline.trials.folder import COLLECTIONS, END, EVENTS, INDEX, TENSORS_OF_JOB, files_below

_PERIOD_SECONDS: Final = 2.0
_MAX_SHARE: Final = 0.05
"""The largest share of the time for reading and exporting: large runs are uploaded less often."""
_ORDER: Final = (EVENTS, COLLECTIONS, INDEX, END)
"""Readers find an index file when the events are there that it refers to."""


class TrialUpload:
    """Uploads the steps of a run as they are complete; nothing if the job has no DebugHookConfig.

    Args:
        log: Receives a line for what could not be exported or uploaded; the latter is tried again.
    """

    def __init__(
        self, folder: JobFolder, specification: JobSpecification, s3: S3Files, log: Callable[[str], None]
    ) -> None:
        hook: JsonObject | None = specification.request.get("DebugHookConfig")
        self._uri = "" if hook is None else join(hook["S3OutputPath"], specification.name, TENSORS_OF_JOB)
        self._run, self._s3, self._log = folder.run, s3, log
        self._folder = os.path.join(folder.path, TENSORS_OF_JOB)
        self._trial = GrowingTrial(folder.run, self._folder)
        self._uploaded: dict[str, tuple[int, int]] = {}
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="trial", daemon=True)
        self._last_error = ""

    def start(self) -> None:
        """Upload what is complete now and then, until ``finish``."""
        if self._uri:
            self._thread.start()

    def finish(self) -> None:
        """Upload everything that is missing, after the end of the training.

        Raises:
            S3Error: It could not be uploaded.
        """
        if not self._uri:
            return
        self._has_ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if layout.is_run(self._run):
            try:
                left_out = self._trial.update()
            except LeadlineError as error:
                self._log(f"the tensors were not exported: {error}")
                return
            for line in left_out:
                self._log(line)
            self._upload()

    def _follow(self) -> None:
        pause = _PERIOD_SECONDS
        while not self._has_ended.wait(pause):
            started = time.monotonic()
            try:
                if layout.is_run(self._run):
                    for line in self._trial.update():
                        self._log(line)
                    self._upload()
            except (LeadlineError, OSError) as error:
                if str(error) != self._last_error:
                    self._log(f"the tensors could not be uploaded yet: {error}")
                self._last_error = str(error)
            pause = max(_PERIOD_SECONDS, (time.monotonic() - started) / _MAX_SHARE)

    def _upload(self) -> None:
        found = {}
        for path in files_below(self._folder):
            state = os.stat(path)
            found[os.path.relpath(path, self._folder)] = (state.st_size, state.st_mtime_ns)
        for part in _ORDER:
            names = [name for name in found if name.partition(os.sep)[0] == part]
            changed = [name for name in names if self._uploaded.get(name) != found[name]]
            self._s3.upload_files(self._folder, changed, self._uri)
            self._uploaded |= {name: found[name] for name in changed}
