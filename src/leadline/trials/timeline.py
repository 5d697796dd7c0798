"""Framework timelines of a trial, written as the timeline of a run."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.formats.chrome_trace import EventJoiner, JoinedEvent
from leadline.records.formatting import counted
from leadline.records.json_object import JsonObject
from leadline.records.phases import BACKWARD, DATA, FORWARD, STEP
from leadline.store import layout
from leadline.store.segments import SegmentFolder
from leadline.store.stream_writer import StreamWriter
from leadline.trials.folder import DAMAGE, FRAMEWORK, files_below, read_json, reason

_BATCH_ROWS: Final = 512
_SEGMENT_BATCHES: Final = 256
_FILE: Final = re.compile(
    r"\d+_(\w[\w.-]*)_(pythontimeline|model_timeline|horovod_timeline|smdataparallel_timeline)\.json"
)
_START: Final = "start_time_since_epoch_in_micros"
_STEP: Final = re.compile(r"Step:ModeKeys\.(TRAIN|EVAL|PREDICT|GLOBAL)")
_PHASES: Final = {
    "Forward": FORWARD,
    "Forward-node": FORWARD,
    "Backward(post-forward)": BACKWARD,
    "Backward(post-forward)-node": BACKWARD,
    "DataLoaderIter::GetNext": DATA,
    "DataIterator": DATA,
}
"""Leadline's phases by smdebug's; events of other phases keep its name."""


@dataclass(frozen=True, slots=True)
class _PhaseEvent:
    phase: str
    name: str
    start_ns: int
    duration_ns: int
    mode_step: int | None
    thread: int
    args: JsonObject


@dataclass(slots=True)
class ImportedTimeline:
    """What was imported of one process: its first and last moment, its steps by mode, and the number of its events."""

    first_ns: int = 0
    last_ns: int = 0
    steps: dict[str, int] = field(default_factory=dict)
    events: int = 0


class StepNumbers:
    """The global steps of the steps within a mode, as far as the saved steps tell them.

    Args:
        stamps: The saved steps: global step, mode, step within the mode.
        renamed: Leadline's modes by those of the profiles, where they differ.
    """

    def __init__(self, stamps: Iterable[tuple[int, str, int]], renamed: Mapping[str, str]) -> None:
        self._renamed = renamed
        self._known: dict[str, list[tuple[int, int]]] = {}
        for step, mode, mode_step in sorted(set(stamps)):
            self._known.setdefault(mode, []).append((mode_step, step))

    def mode(self, name: str) -> str:
        """Return Leadline's mode of a mode of the profiles."""
        return self._renamed.get(name.lower(), name.lower())

    def global_step(self, mode: str, mode_step: int) -> int:
        """Return the global step: the saved one, or else counted from the saved one before it."""
        known = self._known.get(mode)
        if not known:
            return mode_step
        index = max(0, bisect_right(known, (mode_step, 1 << 62)) - 1)
        return max(0, known[index][1] + mode_step - known[index][0])


def timeline_files(folder: str) -> dict[str, list[str]]:
    """Return the timeline files of a trial by process: ``18612-host``."""
    files: dict[str, list[str]] = {}
    for path in files_below(os.path.join(folder, FRAMEWORK, "pevents")):
        match = _FILE.fullmatch(os.path.basename(path))
        if match:
            files.setdefault(match[1], []).append(path)
    return files


def import_timeline(
    paths: Sequence[str], folder: str, run: str, worker: str, numbers: StepNumbers, damage: list[str]
) -> ImportedTimeline:
    """Import the timeline of one process.

    Args:
        folder: The folder of the profiles.
        worker: The worker whose timeline it is.
        damage: Receives a line for each file that cannot be read, and for events that cannot.
    """
    imported = ImportedTimeline()
    writer = StreamWriter(layout.TIMELINE, SegmentFolder(run, layout.TIMELINE, worker), _BATCH_ROWS, _SEGMENT_BATCHES)
    for path in paths:
        for event in _read(path, os.path.relpath(path, folder), damage):
            writer.add((), _row(event, imported, numbers))
            imported.events += 1
            imported.first_ns = min(imported.first_ns or event.start_ns, event.start_ns)
            imported.last_ns = max(imported.last_ns, event.start_ns + event.duration_ns)
    writer.flush()
    return imported


def _row(event: _PhaseEvent, imported: ImportedTimeline, numbers: StepNumbers) -> dict[str, int | str]:
    of_step = _STEP.fullmatch(event.phase)
    mode = numbers.mode(of_step[1]) if of_step else next(iter(imported.steps), "train")
    step = -1 if event.mode_step is None else numbers.global_step(mode, event.mode_step)
    if of_step and event.mode_step is not None:
        imported.steps[mode] = max(imported.steps.get(mode, 0), event.mode_step + 1)
    is_phase = of_step is not None or event.phase in _PHASES
    name = STEP if of_step else _PHASES.get(event.phase, event.phase)
    args = {"own_ns": 0} if of_step else event.args | ({} if is_phase else {"event": event.name})
    return {
        "name": name,
        "phase": mode if is_phase else "",
        "step": step,
        "start_ns": event.start_ns,
        "duration_ns": event.duration_ns,
        "thread": event.thread,
        "args": json.dumps(args),
    }


def _read(path: str, place: str, damage: list[str]) -> list[_PhaseEvent]:
    """Return the events of a file; the steps first, since they tell the mode of the others."""
    try:
        entries = read_json(path)
        start_us = next(int(entry["args"][_START]) for entry in entries if _START in (entry.get("args") or {}))
    except StopIteration:
        damage.append(f"{place} does not tell the time at which it starts; left out")
        return []
    except DAMAGE as error:
        damage.append(f"{place} cannot be read ({reason(error)}); left out")
        return []
    events, bad, first = list[_PhaseEvent](), 0, ""
    joiner = EventJoiner()
    for number, entry in enumerate(entries):
        try:
            event = joiner.add(entry)
            if event is not None:
                events.append(_converted(event, start_us))
        except DAMAGE as error:
            bad, first = bad + 1, first or f"event {number:,}: {reason(error)}"
    if bad:
        damage.append(f"{place} is damaged at {first}; {counted(bad, 'event')} left out")
    return sorted(events, key=lambda event: (_STEP.fullmatch(event.phase) is None, event.start_ns))


def _converted(event: JoinedEvent, start_us: int) -> _PhaseEvent:
    args = dict(event.args)
    step = str(args.pop("step_num", ""))
    args.pop("pid", None)
    return _PhaseEvent(
        phase=event.name if event.process is None else event.process,
        name=event.name,
        start_ns=start_us * 1000 + round(event.start_us * 1000),
        duration_ns=round(event.duration_us * 1000),
        mode_step=int(step) if step.isdecimal() else None,
        thread=int(event.thread),
        args=args,
    )
