"""The documents of workers and judge, read when they change, and the terminal lines made from them."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from leadline.records.formatting import counted, listed
from leadline.store import layout
from leadline.store.documents import read_document

_READ_ATTEMPTS: Final = 5
_READ_PAUSE_SECONDS: Final = 0.002

Document = dict[str, Any]
FileStamp = tuple[int, int, int]


class WatchedFile:
    """A file whose changes are detected by ``stat``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stamp: FileStamp | None = None

    def has_changed(self) -> bool:
        """Return whether the file exists and differs from the last call."""
        try:
            stat = os.stat(self.path)
        except OSError:
            return False
        stamp = stat.st_mtime_ns, stat.st_ino, stat.st_size
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        return True


class Workers:
    """The latest documents of the workers of a run."""

    def __init__(self, run: str) -> None:
        self.documents: dict[str, Document] = {}
        self._folder = os.path.join(run, layout.WORKERS)
        self._files: dict[str, WatchedFile] = {}

    def poll(self) -> list[str]:
        """Read the documents that changed, and return the names of their workers."""
        for name in self._names():
            if name not in self._files:
                self._files[name] = WatchedFile(os.path.join(self._folder, name))
        return [name.removesuffix(".json") for name, file in self._files.items() if self._read(name, file)]

    def _read(self, name: str, file: WatchedFile) -> bool:
        if not file.has_changed():
            return False
        document = read_with_retries(file.path)
        if document is None:
            return False
        self.documents[name.removesuffix(".json")] = document
        return True

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._folder) if name.endswith(".json"))
        except FileNotFoundError:
            return []


def read_with_retries(path: str) -> Document | None:
    """Read a document that may be rewritten in place at this very moment; None: it cannot be read."""
    for _ in range(_READ_ATTEMPTS):
        try:
            document = read_document(path)
        except OSError:
            return None
        if isinstance(document, dict):
            return document
        time.sleep(_READ_PAUSE_SECONDS)
    return None


def describe_worker(document: Document) -> str:
    """``watching Net (62 parameters, AdamW): losses every step, statistics every 50``."""
    models = document.get("models") or []
    names = [str(model.get("name", "a model")) for model in models]
    parameters = sum(int(model.get("parameters", 0)) for model in models)
    features = document.get("features") or []
    details = [counted(parameters, "parameter")] if parameters else []
    details += [counted(len(features), "feature")] if features else []
    details += dict.fromkeys(str(optimizer) for optimizer in document.get("optimizers") or [])
    subject = listed(names) if names else "the training"
    if details:
        subject = f"{subject} ({', '.join(details)})"
    captured = document.get("watching")
    return f"watching {subject}: {captured}" if captured else f"watching {subject}"


def describe_dropped_data(worker: str, dropped: Document) -> str:
    """``rank0-4711: dropped 1 row and 2 tensors since step 7: No space left on device``."""
    parts = [
        counted(int(dropped[key]), noun) for key, noun in (("rows", "row"), ("tensors", "tensor")) if dropped.get(key)
    ]
    what = listed(parts) or "captured data"
    since, reason = dropped.get("since_step", "?"), dropped.get("reason", "unknown reason")
    return f"{worker}: dropped {what} since step {since}: {reason}"


def describe_disabled_capture(worker: str, off: Document) -> str:
    """``rank0-4711: capture disabled at step 3: ValueError: …``."""
    return f"{worker}: capture disabled at step {off.get('step', '?')}: {off.get('error', 'unknown error')}"


def describe_announcement(announcement: Document) -> str:
    """Return a new finding, or the outcome of an action, in one line."""
    step = announcement.get("step")
    prefix = f"step {step}  " if isinstance(step, int) and step >= 0 else ""
    message = f"{prefix}{announcement.get('rule', '?')}: {announcement.get('message', '')}"
    if announcement.get("kind"):
        return message
    action = announcement.get("action")
    return f"{message} → {action}" if action else f"{message}      leadline show"
