"""Rows of the run list, read again only for runs that have changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leadline.analysis.hyperparameters import given_hyperparameters
from leadline.dashboard.live_events import stamp
from leadline.reader.summary import DAMAGED, RunSummary, summarize
from leadline.records import describe
from leadline.records.formatting import significant
from leadline.records.names import JOB_ENDED
from leadline.records.outcome import Level
from leadline.store import layout
from leadline.store.run_notes import RunNotes, read_notes

SEVERITY: Final = ("IssuesFound", "Error", "InProgress", "Stopping", "Stopped", "NoIssuesFound")
"""Rule statuses, the most severe first."""
_FRESH_SECONDS: Final = 0.5
_DOCUMENTS: Final = (layout.MANIFEST, layout.STATUS, layout.RULE_SUMMARY, layout.WORKERS, layout.SERIES, layout.NOTES)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list."""

    name: str
    """Name of its run directory, which identifies it in URLs."""
    status: str
    is_over: bool
    started_ns: int
    seconds: float
    """Duration so far."""
    steps: int
    """Train steps; of a run that never trains, all steps."""
    steps_by_mode: str
    """``3,750 steps, 12 eval steps``."""
    word: str
    """The verdict in one or two words, without its sign."""
    outcome: str
    """The outcome in one line, without what other columns show."""
    level: Level
    """The level of the outcome."""
    ending: Level
    """The level of the badge of the status: ``fatal`` as well if the last loss is not finite."""
    worst: str
    """Most severe rule status; "": no rules."""
    fired: tuple[str, ...]
    """Rules with findings, ranked."""
    rules: int
    preset: str
    command: str
    short_command: str
    """The command line without the folder of its script."""
    loss: str
    """The latest value of the first loss; "": none."""
    given: dict[str, str]
    """Hyperparameters from the command line and of boosters."""
    notes: RunNotes
    version: int
    """Differs when the run has changed."""


@dataclass(slots=True)
class _Entry:
    stamps: tuple[tuple[int, int], ...]
    row: RunRow


class RunList:
    """Rows of the runs in a runs directory; thread-safe.

    Args:
        root: Runs directory, resolved.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()
        self._read_at = float("-inf")

    def rows(self) -> list[RunRow]:
        """Return all runs, unordered."""
        with self._lock:
            if time.monotonic() - self._read_at > _FRESH_SECONDS:
                self._read()
                self._read_at = time.monotonic()
            return [entry.row for entry in self._entries.values()]

    def expire(self) -> None:
        """Read the runs again at the next request, because one was changed from the dashboard."""
        with self._lock:
            self._read_at = float("-inf")

    def _read(self) -> None:
        entries: dict[str, _Entry] = {}
        for path in self._paths():
            entry = self._entries.get(path)
            if entry is None or not entry.row.is_over or entry.stamps != _stamps(path):
                entry = _read_entry(path)
            if entry is not None:
                entries[path] = entry
        self._entries = entries

    def _paths(self) -> list[str]:
        """Return the folders in the root; links are excluded because they may lead outside."""
        try:
            with os.scandir(self._root) as entries:
                return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []


def _read_entry(path: str) -> _Entry | None:
    """Read a run's documents; None: there is no run."""
    stamps = _stamps(path)
    summary = summarize(path)
    return _Entry(stamps, _row(summary, hash(stamps) & 0xFFFFFFFF)) if summary is not None else None


def _stamps(path: str) -> tuple[tuple[int, int], ...]:
    return tuple(stamp(f"{path}/{name}") for name in _DOCUMENTS)


def _row(run: RunSummary, version: int) -> RunRow:
    is_over = run.status in JOB_ENDED or run.status == DAMAGED
    end_ns = (run.ended_ns or run.started_ns) if is_over else time.time_ns()
    return RunRow(
        name=os.path.basename(run.path),
        status=run.status,
        is_over=is_over,
        started_ns=run.started_ns,
        seconds=max(0.0, (end_ns - run.started_ns) / 1e9),
        steps=run.train_steps,
        steps_by_mode=describe.steps(run.steps),
        word=run.outcome.plain_word,
        outcome=run.outcome.brief,
        level=run.outcome.level,
        ending=run.level,
        worst=_worst(rule.status for rule in run.rules),
        fired=tuple(problem.cause.name for problem in run.outcome.problems),
        rules=len(run.rules),
        preset=run.preset,
        command=_format_command(run.command),
        short_command=shorten_command(run.command),
        loss="" if run.loss is None else significant(float(run.loss)),
        given=given_hyperparameters(run.command, run.hyperparameters),
        notes=read_notes(run.path),
        version=version,
    )


def _format_command(command: tuple[str, ...]) -> str:
    """Return a command line without the folder of its interpreter."""
    return " ".join([os.path.basename(command[0]), *command[1:]]) if command else ""


def shorten_command(command: tuple[str, ...]) -> str:
    """Return a command line without the folders of its interpreter and script, whose names are what differs."""
    script = next((at for at, word in enumerate(command) if at and not word.startswith("-")), 0)
    return " ".join(os.path.basename(word) if at in (0, script) else word for at, word in enumerate(command))


def _worst(statuses: Iterable[str]) -> str:
    present = set(statuses)
    return next((status for status in SEVERITY if status in present), "")
