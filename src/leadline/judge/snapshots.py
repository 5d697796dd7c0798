"""Snapshots: what a run holds of the tensors of a finding, read where nobody waits for it."""

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
from leadline.reader.segments import Batch, SegmentTail
from leadline.reader.tensors import StoredTensor, read_header
from leadline.records.notification import Notification, TensorSnapshot
from leadline.records.series import SeriesLayout
from leadline.store import layout
from leadline.store.documents import encode

MOST_BYTES: Final = 4000
"""Of all snapshots of a notice as JSON."""
MOST_VALUES: Final = 16
_MOST_READ_BYTES: Final = 256 << 20
_MOST_KEPT_BYTES: Final = 64 << 20
_WAIT_SECONDS: Final = 2.0
"""A tensor may be written a moment later than the row of its step."""
_POLL_SECONDS: Final = 0.05


class Segments:
    """Series segments, each read on from where it was left; those looked at last are kept, as far as they fit."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[SegmentTail, list[Batch]]] = {}

    def batches(self, path: str) -> tuple[SeriesLayout | None, list[Batch]]:
        """What a segment holds by now."""
        tail, batches = self._read.pop(path) if path in self._read else (SegmentTail(path, path), [])
        batches += tail.read_new()
        self._read[path] = (tail, batches)
        while len(self._read) > 1 and sum(tail.offset for tail, _ in self._read.values()) > _MOST_KEPT_BYTES:
            del self._read[next(iter(self._read))]
        return (tail.info.layout if tail.info else None), batches


def snapshots(
    run: str, notice: Notification, segments: Segments | None = None, wait_seconds: float = _WAIT_SECONDS
) -> tuple[TensorSnapshot, ...]:
    """What was captured of the tensors that a notice names, at its step and in its worker.

    Args:
        segments: What earlier notices have read; None: nothing.
        wait_seconds: How long raw tensors are waited for, where the run stores some.
    Returns:
        In the notice's order, as many as fit into ``MOST_BYTES``; the first values are left out before a tensor is.
    """
    names = [each.name for each in notice.tensors]
    if notice.step is None or not names:
        return notice.tensors
    workers, segments = [notice.worker] if notice.worker else _workers(run), segments or Segments()
    found = {name: TensorSnapshot(name) for name in names}
    for worker in workers:
        for name, each in _captured(run, worker, notice.step, names, segments).items():
            if not found[name].statistics:
                found[name] = each
    for name, stored in _stored(run, workers, notice.step, names, wait_seconds).items():
        found[name] = _with_values(found[name], stored)
    return fitting(list(found.values()))


def fitting(found: list[TensorSnapshot]) -> tuple[TensorSnapshot, ...]:
    """As many as may go out: first values go before statistics, statistics before names, the last tensors first."""
    kept = [replace(each) for each in found]
    for bare in (lambda each: replace(each, values=None), lambda each: TensorSnapshot(each.name, each.shape)):
        for index in range(len(kept) - 1, -1, -1):
            if _size(kept) <= MOST_BYTES:
                return tuple(kept)
            kept[index] = bare(kept[index])
    while kept and _size(kept) > MOST_BYTES:
        kept.pop()
    return tuple(kept)


def _size(found: Iterable[TensorSnapshot]) -> int:
    return len(encode(Notification("", "finding", "", "", "", 0, tensors=tuple(found)).to_dict()["tensors"]))


def _workers(run: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(run, layout.SERIES)))
    except FileNotFoundError:
        return []


def _captured(run: str, worker: str, step: int, names: list[str], segments: Segments) -> dict[str, TensorSnapshot]:
    """The statistics of one step, from the latest segments backwards: what was found just now stands at the end."""
    found: dict[str, TensorSnapshot] = {}
    left = _MOST_READ_BYTES
    for path in _latest_first(os.path.join(run, layout.SERIES, worker), ".arrow"):
        left -= os.path.getsize(path)
        if left < 0 or set(names) <= set(found):
            break
        for each in _rows(*segments.batches(path), step, names):
            known = found.get(each.name, each)
            found[each.name] = replace(known, statistics={**each.statistics, **known.statistics})
    return found


def _rows(kept: SeriesLayout | None, batches: list[Batch], step: int, names: list[str]) -> Iterator[TensorSnapshot]:
    """What a segment has of the tensors at a step."""
    wanted = {index: each for index, each in enumerate(kept.tensors) if each.name in names} if kept else {}
    for batch in reversed(batches) if wanted else ():
        assert kept is not None
        for row in np.flatnonzero(np.asarray(batch.columns["step"]) == step):
            values = np.asarray(batch.columns["values"])[row]
            for index, info in wanted.items():
                columns = [(column, each) for column, (owner, each) in enumerate(kept.columns) if owner == index]
                statistics = {each: float(values[column]) for column, each in columns}
                yield TensorSnapshot(info.name, info.shape, info.dtype, statistics)


def _stored(run: str, workers: list[str], step: int, names: list[str], wait_seconds: float) -> dict[str, StoredTensor]:
    """Where the tensors lie raw; waited for where the run stores such tensors at that step."""
    is_expected = any(item.raw and item.schedule.is_due(step) for item in read_manifest(run).plan.items)
    until = time.monotonic() + (wait_seconds if is_expected else 0.0)
    while True:
        is_over = liveness.is_over(run)
        found: dict[str, StoredTensor] = {}
        has_passed = True
        for worker in workers:
            stored, latest = _segments_of(run, worker, step)
            has_passed = has_passed and latest >= step
            for each in stored:
                if each.name in names:
                    found.setdefault(each.name, each)
        if set(names) <= set(found) or has_passed or is_over or time.monotonic() >= until:
            return found
        time.sleep(_POLL_SECONDS)


def _segments_of(run: str, worker: str, step: int) -> tuple[list[StoredTensor], int]:
    """The tensors that a worker stored at a step, and the last step of which it stored some; the latest first."""
    found: list[StoredTensor] = []
    latest = -1
    for path in _latest_first(os.path.join(run, layout.TENSORS, worker), ".safetensors"):
        try:
            held = read_header(path, worker)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # `leadline show --verify` tells of it
        steps = [each.step for each in held]
        latest = max([latest, *steps])
        found += [each for each in held if each.step == step and layout.parse_vector_name(each.name) is None]
        if steps and max(steps) < step:
            break
    return found, latest


def _latest_first(folder: str, ending: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [os.path.join(folder, name) for name in sorted(names, reverse=True) if name.endswith(ending)]


def _with_values(known: TensorSnapshot, stored: StoredTensor) -> TensorSnapshot:
    key = layout.tensor_key(stored.mode, stored.step, stored.name)
    uri = f"file://{quote(stored.path)}#{quote(key)}"
    try:
        first = _first_values(stored)
    except DamagedRunError:
        first = None
    return replace(known, shape=stored.shape, dtype=known.dtype or stored.dtype, values=first, uri=uri)


def _first_values(stored: StoredTensor) -> tuple[float, ...] | None:
    """The first elements; None of types that are no real numbers."""
    values = stored.load().reshape(-1)[:MOST_VALUES]
    return None if np.iscomplexobj(values) else tuple(float(each) for each in values)
