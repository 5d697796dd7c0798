"""Following what workers and judge say while the job runs: documents, read when they change."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any, Final

from leadline.records.formatting import counted, listed
from leadline.store import layout
from leadline.store.documents import read_document

_READ_ATTEMPTS: Final = 5
_READ_PAUSE_SECONDS: Final = 0.002

Document = dict[str, Any]
Stamp = tuple[int, int, int]


class Follower:
    """One file, looked at by ``stat`` and read when it changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stamp: Stamp | None = None

    def has_changed(self) -> bool:
        """Whether it is another one than at the last call."""
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
    """What the workers of a run say of themselves."""

    def __init__(self, run: str) -> None:
        self.documents: dict[str, Document] = {}
        self._folder = os.path.join(run, layout.WORKERS)
        self._files: dict[str, Follower] = {}

    def poll(self) -> list[str]:
        """Read what changed, and tell which workers that were."""
        for name in self._names():
            if name not in self._files:
                self._files[name] = Follower(os.path.join(self._folder, name))
        return [name.removesuffix(".json") for name, file in self._files.items() if self._read(name, file)]

    def _read(self, name: str, file: Follower) -> bool:
        if not file.has_changed():
            return False
        document = read_patiently(file.path)
        if document is None:
            return False
        self.documents[name.removesuffix(".json")] = document
        return True

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._folder) if name.endswith(".json"))
        except FileNotFoundError:
            return []


def read_patiently(path: str) -> Document | None:
    """A document that may be rewritten in place this very moment."""
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
    details += _unique(str(each) for each in document.get("optimizers") or [])
    if names:
        what = f"{listed(names)} ({', '.join(details)})" if details else listed(names)
    else:
        what = f"the training ({', '.join(details)})" if details else "the training"
    watching = document.get("watching")
    return f"watching {what}: {watching}" if watching else f"watching {what}"


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def describe_lost(worker: str, lost: Document) -> str:
    """What a worker could not store."""
    parts = [counted(int(lost[key]), noun) for key, noun in (("rows", "row"), ("tensors", "tensor")) if lost.get(key)]
    what = listed(parts) or "captures"
    since, reason = lost.get("since_step", "?"), lost.get("reason", "not said why")
    return f"{worker}: {what} lost since step {since}: {reason}"


def describe_off(worker: str, off: Document) -> str:
    """Why a worker captures no more."""
    return f"{worker}: capture is off since step {off.get('step', '?')}: {off.get('error', 'not said why')}"


def describe_announcement(announcement: Document) -> str:
    """A finding that has just opened, or what came of an action, in one line."""
    step = announcement.get("step")
    where = f"step {step}  " if isinstance(step, int) and step >= 0 else ""
    message = f"{where}{announcement.get('rule', '?')}: {announcement.get('message', '')}"
    if announcement.get("kind"):
        return message
    action = announcement.get("action")
    return f"{message} → {action}" if action else f"{message}      leadline show"
