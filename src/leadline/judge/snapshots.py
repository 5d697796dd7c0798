"""Snapshots of the tensors of a finding: what the run contains of them at its step."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final
from urllib.parse import quote

import numpy as np

from leadline.errors import DamagedRunError
from leadline.reader import liveness
from leadline.reader.find_runs import read_manifest
from leadline.reader.segments import Range, SegmentTail
from leadline.reader.tensors import StoredTensor, read_header
from leadline.records.notification import Notification, TensorSnapshot
from leadline.records.series import SeriesLayout
from leadline.store import layout
from leadline.store.documents import encode
from leadline.store.folder_watch import names_in
from leadline.store.segments import row_bytes

MAX_BYTES: Final = 4000
"""The size of all snapshots of a notification as JSON."""
MAX_VALUES: Final = 16
_MAX_READ_BYTES: Final = 256 << 20
_MAX_KEPT_BYTES: Final = 64 << 20
_POLL_SECONDS: Final = 0.05


class Segments:
    """A cache of series segments, each of which is read incrementally; the latest ones are kept, up to 64 MiB."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[SegmentTail, list[Range]]] = {}

    def batches(self, path: str) -> tuple[SeriesLayout | None, list[Range]]:
        """Return the batches that a segment contains by now."""
        tail, ranges = self._read.pop(path) if path in self._read else (SegmentTail(path, path), [])
        while (batches := tail.read()) is not None:
            ranges.append(batches)
        self._read[path] = (tail, ranges)
        while len(self._read) > 1 and self._kept_bytes() > _MAX_KEPT_BYTES:
            del self._read[next(iter(self._read))]
        return (tail.info.layout if tail.info else None), ranges

    def _kept_bytes(self) -> int:
        return sum(row_bytes(path, tail.offset) for path, (tail, _) in self._read.items())


def snapshots(
    run: str, notification: Notification, segments: Segments | None = None, wait_seconds: float = 0.0
) -> tuple[TensorSnapshot, ...]:
    """Return what was captured of the tensors of a notification, at its step and in its worker.

    Args:
        segments: The cache of earlier notifications; None: no cache.
        wait_seconds: How long raw tensors are waited for, if the run stores some.
    Returns:
        In the order of the notification, as many as fit into ``MAX_BYTES``; values are left out before tensors are.
    """
    names = [tensor.name for tensor in notification.tensors]
    step = notification.global_step
    if step is None or not names:
        return notification.tensors
    workers = [notification.worker] if notification.worker else names_in(os.path.join(run, layout.SERIES))
    segments = segments or Segments()
    result = {name: TensorSnapshot(name) for name in names}
    for worker in workers:
        for name, snapshot in _captured(run, worker, step, names, segments).items():
            if not result[name].statistics:
                result[name] = snapshot
    for name, stored in _stored(run, workers, notification, names, wait_seconds).items():
        result[name] = _with_values(result[name], stored)
    return fitting(list(result.values()))


def fitting(snapshots: list[TensorSnapshot]) -> tuple[TensorSnapshot, ...]:
    """Reduce snapshots to the maximal size: first values are removed, then statistics, then tensors, last first."""
    kept = [replace(snapshot) for snapshot in snapshots]
    for reduce in (
        lambda snapshot: replace(snapshot, values=None),
        lambda snapshot: TensorSnapshot(snapshot.name, snapshot.shape),
    ):
        for index in range(len(kept) - 1, -1, -1):
            if _size(kept) <= MAX_BYTES:
                return tuple(kept)
            kept[index] = reduce(kept[index])
    while kept and _size(kept) > MAX_BYTES:
        kept.pop()
    return tuple(kept)


def _size(snapshots: Iterable[TensorSnapshot]) -> int:
    return len(encode(Notification("", "finding", "", "", "", 0, tensors=tuple(snapshots)).to_dict()["tensors"]))


def _captured(run: str, worker: str, step: int, names: list[str], segments: Segments) -> dict[str, TensorSnapshot]:
    """Return the statistics of one step; reads the latest segments first, since the step is a recent one."""
    snapshots: dict[str, TensorSnapshot] = {}
    left = _MAX_READ_BYTES
    for path in _latest_first(os.path.join(run, layout.SERIES, worker), layout.SEGMENTS):
        left -= row_bytes(path, os.path.getsize(path))
        if left < 0 or set(names) <= set(snapshots):
            break
        for snapshot in _rows(*segments.batches(path), step, names):
            known = snapshots.get(snapshot.name, snapshot)
            snapshots[snapshot.name] = replace(known, statistics={**snapshot.statistics, **known.statistics})
    return snapshots


def _rows(kept: SeriesLayout | None, ranges: list[Range], step: int, names: list[str]) -> Iterator[TensorSnapshot]:
    """Yield what a segment contains of the tensors at a step."""
    wanted = {index: info for index, info in enumerate(kept.tensors) if info.name in names} if kept else {}
    for batches in reversed(ranges) if wanted else ():
        assert kept is not None
        for row in np.flatnonzero(batches.numbers("step") == step):
            values = batches.numbers("values")[row]
            for index, info in wanted.items():
                columns = [(column, name) for column, (owner, name) in enumerate(kept.columns) if owner == index]
                statistics = {name: float(values[column]) for column, name in columns}
                yield TensorSnapshot(info.name, info.shape, info.dtype, statistics)


def _stored(
    run: str, workers: list[str], notification: Notification, names: list[str], wait_seconds: float
) -> dict[str, StoredTensor]:
    """Return the raw tensors; waits for them if the run stores such tensors at that step."""
    train_step, step = notification.step or 0, notification.global_step or 0
    is_expected = any(item.raw and item.schedule.should_capture(train_step) for item in read_manifest(run).plan.items)
    until = time.monotonic() + (wait_seconds if is_expected else 0.0)
    while True:
        is_over = liveness.is_over(run)
        result: dict[str, StoredTensor] = {}
        has_passed = True
        for worker in workers:
            stored, latest = _segments_of(run, worker, step)
            has_passed = has_passed and latest >= step
            for tensor in stored:
                if tensor.name in names:
                    result.setdefault(tensor.name, tensor)
        if set(names) <= set(result) or has_passed or is_over or time.monotonic() >= until:
            return result
        time.sleep(_POLL_SECONDS)


def _segments_of(run: str, worker: str, step: int) -> tuple[list[StoredTensor], int]:
    """Return the tensors that a worker stored at a step, latest first, and the last step of any stored tensor."""
    tensors: list[StoredTensor] = []
    latest = -1
    for path in _latest_first(os.path.join(run, layout.TENSORS, worker), ".safetensors"):
        try:
            stored = read_header(path, worker)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # `leadline show --verify` reports it
        steps = [tensor.step for tensor in stored]
        latest = max([latest, *steps])
        at_step = (tensor for tensor in stored if tensor.step == step)
        tensors += [tensor for tensor in at_step if layout.parse_vector_name(tensor.name) is None]
        if steps and max(steps) < step:
            break
    return tensors, latest


def _latest_first(folder: str, ending: str | tuple[str, ...]) -> list[str]:
    return [os.path.join(folder, name) for name in reversed(names_in(folder)) if name.endswith(ending)]


def _with_values(known: TensorSnapshot, stored: StoredTensor) -> TensorSnapshot:
    key = layout.tensor_key(stored.mode, stored.step, stored.name)
    uri = f"file://{quote(stored.path)}#{quote(key)}"
    try:
        first = _first_values(stored)
    except DamagedRunError:
        first = None
    return replace(known, shape=stored.shape, dtype=known.dtype or stored.dtype, values=first, uri=uri)


def _first_values(stored: StoredTensor) -> tuple[float, ...] | None:
    """Return the first elements; None for types that are not real numbers."""
    values = stored.load().reshape(-1)[:MAX_VALUES]
    return None if np.iscomplexobj(values) else tuple(float(value) for value in values)
