"""What a new incarnation of a run continues: the ends of its streams, and the numbers of its steps."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from leadline.reader.incarnations import Replacements, read_replacements, without_replaced
from leadline.reader.liveness import effective_document
from leadline.reader.segments import SegmentTail
from leadline.records.documents import RunStatus, WorkerDocument
from leadline.records.incarnations import Incarnation, Incarnations, StepPosition, WorkerStreams
from leadline.records.names import rank_of
from leadline.records.request import AddRules, ChangeCapture, RemoveRules
from leadline.store import layout
from leadline.store.control import read_requests
from leadline.store.folder_watch import names_in
from leadline.store.incarnations import read_incarnations
from leadline.store.run_state import read_workers
from leadline.store.segments import last_ordinal


def next_incarnation(
    run: str, resume_step: int | None = None, *, without: Container[str] = ()
) -> tuple[Incarnations, RunStatus]:
    """Return the incarnations of a run with one more, and how the last one ended.

    All series of the run are read.

    Args:
        run: The run directory; none of its processes is running.
        resume_step: The train step at which the new one continues; None: it follows from what the script loads.
        without: The workers that no process continues.
    """
    before, ended, workers = read_incarnations(run), effective_document(run), read_workers(run)
    replaced = read_replacements(run)
    present = sorted({*names_in(os.path.join(run, layout.SERIES)), *workers})
    names = [name for name in present if name not in without]
    recorded = {name: _read_series(run, name, replaced) for name in names}
    main = max(names, key=lambda name: (recorded[name].train_steps, -(rank_of(name) or 0)), default=None)
    is_alone = len({rank_of(name) or 0 for name in present}) < 2
    positions = recorded[main].positions(is_counted=is_alone) if main is not None else (StepPosition(),)
    ended_ns = ended.ended_ns or max((document.time_ns for document in workers.values()), default=None)
    start = Incarnation(
        before.number + 1, time.time_ns(), ended_ns, ended.status, ended.exit_status, positions[-1].step
    )
    incarnations = Incarnations(
        starts=(*before.starts, start),
        resume_step=resume_step,
        counted_before=workers[main].counted_before or 0 if main in workers else 0,
        positions=positions,
        workers={name: _streams(run, name, recorded[name], workers) for name in names},
        requests=tuple(
            request.id
            for request in read_requests(run)
            if not isinstance(request, (AddRules, RemoveRules, ChangeCapture))
        ),
        samples=next_samples(run),
    )
    return incarnations, ended


def with_streams_of(run: str, incarnations: Incarnations, workers: Iterable[str], node: str) -> Incarnations:
    """Return incarnations with the ends of streams as a run directory has them, which may have more than the store.

    Args:
        run: The run directory of a node.
        workers: The workers that this node has written.
        node: The name of the node.
    """
    documents, replaced = read_workers(run), read_replacements(run)
    streams = {name: _streams(run, name, _read_series(run, name, replaced), documents) for name in workers}
    samples = {name: number for name, number in next_samples(run).items() if name == node}
    return replace(incarnations, workers=incarnations.workers | streams, samples=incarnations.samples | samples)


def next_samples(run: str) -> dict[str, int]:
    """Return the number of the next batch of system metrics of each node."""
    return {node: _next_sequence(run, layout.SYSTEM, node) for node in names_in(os.path.join(run, layout.SYSTEM))}


@dataclass(slots=True)
class _Recorded:
    """The stamps of the rows of a worker's series: global steps and steps of the mode, by mode."""

    next_sequence: int = 0
    steps: dict[str, list[np.ndarray]] = field(default_factory=dict)
    mode_steps: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @property
    def train_steps(self) -> int:
        """The number of train steps up to the last one recorded."""
        return 1 + max((int(steps.max()) for steps in self.mode_steps.get("train", ())), default=-1)

    def positions(self, *, is_counted: bool) -> tuple[StepPosition, ...]:
        """Return the positions where the difference of global and train step changes, and that after all rows.

        Args:
            is_counted: Whether the global step counts the steps of other modes.
        """
        steps, at = self._stamps("train")
        counts = {mode: self._finished(mode, steps) for mode in self.steps if mode != "train"}
        state = np.stack([steps - at, *counts.values()]) if len(steps) else np.zeros((1, 0), np.int64)
        changes = np.flatnonzero(np.append(True, np.any(np.diff(state, axis=1) != 0, axis=0))[: len(steps)])
        found = [
            StepPosition(int(at[row]), int(steps[row]), {mode: int(count[row]) for mode, count in counts.items()})
            for row in changes.tolist()
        ]
        others = {mode: 1 + int(self._stamps(mode)[1].max()) for mode in counts}
        passed = sum(others[mode] - int(count[-1]) if len(count) else others[mode] for mode, count in counts.items())
        last = int(steps[-1]) + 1 if len(steps) else 0
        return (*found, StepPosition(self.train_steps, last + passed * is_counted, others))

    def _stamps(self, mode: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the global steps of a mode in order, each once, and its own steps."""
        if mode not in self.steps:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        steps, first = np.unique(np.concatenate(self.steps[mode]), return_index=True)
        return steps, np.concatenate(self.mode_steps[mode])[first]

    def _finished(self, mode: str, before: np.ndarray) -> np.ndarray:
        """Return how many steps of a mode had been finished before each global step of train steps."""
        steps, mode_steps = self._stamps(mode)
        finished = np.append(0, np.maximum.accumulate(mode_steps + 1))
        # without counting them, the eval steps before a train step have its global step
        count: np.ndarray = finished[np.searchsorted(steps, before, side="right")]
        return count


def _read_series(run: str, worker: str, replaced: Replacements) -> _Recorded:
    """Read the stamps of the series of a worker, without steps that were repeated."""
    result, cuts = _Recorded(), replaced.of(worker)
    for path in _segments(run, layout.SERIES, worker):
        segment = SegmentTail(path, path)
        while (batches := segment.read()) is not None:
            result.next_sequence = max(result.next_sequence, int(batches.sequences[-1]) + 1)
            batches = without_replaced(batches, layout.SERIES, cuts)
            modes = np.asarray(batches.texts("mode")) if batches.rows.any() else np.zeros(0, str)
            for mode in np.unique(modes).tolist():
                rows = modes == mode
                result.steps.setdefault(mode, []).append(batches.numbers("step")[rows])
                result.mode_steps.setdefault(mode, []).append(batches.numbers("mode_step")[rows])
    return result


def _streams(run: str, worker: str, recorded: _Recorded, workers: dict[str, WorkerDocument]) -> WorkerStreams:
    return WorkerStreams(
        series=recorded.next_sequence,
        timeline=_next_sequence(run, layout.TIMELINE, worker),
        tensors=last_ordinal(os.path.join(run, layout.TENSORS, worker)) + 1,
        steps=recorded.train_steps,
        starts=workers[worker].starts if worker in workers else (),
    )


def _next_sequence(run: str, part: str, stream: str) -> int:
    """Return the number of the next batch of a stream that has one open segment at a time."""
    for path in reversed(_segments(run, part, stream)):
        segment, last = SegmentTail(path, path), -1
        while (batches := segment.read()) is not None:
            last = int(batches.sequences[-1])
        if last >= 0:
            return last + 1
    return 0


def _segments(run: str, part: str, stream: str) -> list[str]:
    folder = os.path.join(run, part, stream)
    return [os.path.join(folder, name) for name in sorted(names_in(folder)) if name.endswith(layout.SEGMENTS)]
