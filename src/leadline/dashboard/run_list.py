"""All runs below a root as rows of a list: read once, and again only where something has changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leadline.dashboard.change_stamp import stamp
from leadline.reader.summary import RunSummary, summarize
from leadline.records.names import JOB_ENDED
from leadline.store import layout

_WORST: Final = ("IssuesFound", "Error", "InProgress", "Stopping", "Stopped", "NoIssuesFound")
"""The statuses of rules, those first that somebody should look at."""
_FRESH_SECONDS: Final = 0.5
_DOCUMENTS: Final = (layout.MANIFEST, layout.STATUS, layout.RULE_SUMMARY, layout.WORKERS, layout.SERIES)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list."""

    name: str
    """Its folder's name, by which it is asked for."""
    status: str
    is_over: bool
    started_ns: int
    seconds: float
    """How long it ran, or runs."""
    steps: int
    """Of all modes."""
    train_steps: int
    worst: str
    """The worst status of a rule; "": it has no rules."""
    fired: tuple[str, ...]
    """The rules that found something, in the order of the summary."""
    rules: int
    preset: str
    command: str
    version: int
    """Another where something of it is new."""


@dataclass(slots=True)
class _Known:
    stamps: tuple[tuple[int, int], ...]
    row: RunRow


class RunList:
    """The rows of a root; to be asked by many threads.

    Args:
        root: The folder below which runs stand, resolved.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._read_at = float("-inf")

    def rows(self) -> list[RunRow]:
        """All runs, in no order."""
        with self._lock:
            if time.monotonic() - self._read_at > _FRESH_SECONDS:
                self._read()
                self._read_at = time.monotonic()
            return [each.row for each in self._known.values()]

    def _read(self) -> None:
        found: dict[str, _Known] = {}
        for path in self._paths():
            known = self._known.get(path)
            if known is None or not known.row.is_over or known.stamps != _stamps(path):
                known = _known(path)
            if known is not None:
                found[path] = known
        self._known = found

    def _paths(self) -> list[str]:
        """The folders below the root; links may lead out of it, and are none of them."""
        try:
            with os.scandir(self._root) as entries:
                return [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError:
            return []


def _known(path: str) -> _Known | None:
    """A run as its documents are now; None: it is half made, or damaged."""
    stamps = _stamps(path)
    found = summarize(path)
    return _Known(stamps, _row(found, hash(stamps) & 0xFFFFFFFF)) if found is not None else None


def _stamps(path: str) -> tuple[tuple[int, int], ...]:
    return tuple(stamp(f"{path}/{each}") for each in _DOCUMENTS)


def _row(run: RunSummary, version: int) -> RunRow:
    is_over = run.status in JOB_ENDED
    until_ns = (run.ended_ns or run.started_ns) if is_over else time.time_ns()
    return RunRow(
        name=os.path.basename(run.path),
        status=run.status,
        is_over=is_over,
        started_ns=run.started_ns,
        seconds=max(0.0, (until_ns - run.started_ns) / 1e9),
        steps=sum(run.steps.values()),
        train_steps=run.steps.get("train", 0),
        worst=_worst(each.status for each in run.rules),
        fired=tuple(each.name for each in run.rules if each.findings),
        rules=len(run.rules),
        preset=run.preset,
        command=_spoken(run.command),
        version=version,
    )


def _spoken(command: tuple[str, ...]) -> str:
    """A command line without the folder of its interpreter."""
    return " ".join([os.path.basename(command[0]), *command[1:]]) if command else ""


def _worst(statuses: Iterable[str]) -> str:
    known = set(statuses)
    return next((each for each in _WORST if each in known), "")
