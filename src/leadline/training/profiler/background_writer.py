"""Background writing of recorded profiles, in a thread that lives only while there is something to write."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from leadline.store import layout
from leadline.store.documents import make_subfolder, write_document
from leadline.training.recording import Finish

_CLOSE_SECONDS: Final = 60.0


class BackgroundWriter:
    """Writes one profile after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None

    def put(self, folder: str, finish: Finish, document: dict[str, Any], report: Callable[[str], None]) -> None:
        """Write a profile: its files, then the document that marks them complete.

        Args:
            report: Takes the outcome, one line.
        """
        with self._lock:
            self._queue.append(lambda: _write(folder, finish, document, report))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="leadline-profiles", daemon=True)
                self._thread.start()

    def close(self) -> bool:
        """Wait until everything is written; return whether it is."""
        thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_SECONDS)
        return not self._queue and self._thread is None

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._thread = None
                    return
                write = self._queue.pop(0)
            write()


def _write(folder: str, finish: Finish, document: dict[str, Any], report: Callable[[str], None]) -> None:
    """Write a profile; a failure is reported, and affects nothing else."""
    try:
        for parent in (os.path.dirname(os.path.dirname(folder)), os.path.dirname(folder), folder):
            make_subfolder(parent)
        files = list(finish(folder))
        size = sum(os.path.getsize(os.path.join(folder, file)) for file in files)
        complete = {**document, "files": files, "bytes": size, "written_ns": time.time_ns()}
        write_document(os.path.join(folder, layout.WINDOW), complete)
    except Exception as error:  # noqa: BLE001 - the guard of a thread of ours
        report(f"failed: {type(error).__name__}: {error}")
    else:
        steps = f"steps {document['first_step']:,} to {document['end_step'] - 1:,}, "
        report(f"recorded: {steps if document['part'] == 'loop' else ''}{size:,} bytes")
