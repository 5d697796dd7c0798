"""Totals over the workers of a run: steps, overhead and throttling."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.records.documents import ThrottledItem, WorkerDocument


def steps_by_mode(workers: Iterable[WorkerDocument]) -> dict[str, int]:
    """Return the number of steps by mode, of the worker with the most steps."""
    steps: dict[str, int] = {}
    for worker in workers:
        for mode, count in worker.steps.items():
            steps[mode] = max(steps.get(mode, 0), count)
    return steps


def step_share(workers: Iterable[WorkerDocument]) -> float | None:
    """Return the share of the training thread's time that Leadline took.

    Units:
        A ratio over all workers; None if no step was recorded.
    """
    workers = list(workers)
    loop_ns = sum(worker.loop_ns for worker in workers)
    return sum(worker.own_ns for worker in workers) / loop_ns if loop_ns else None


def throttled(workers: Iterable[WorkerDocument]) -> list[ThrottledItem]:
    """Return the capture items throttled by the overhead budget, each as in the worker that throttles it most."""
    widest: dict[tuple[object, ...], ThrottledItem] = {}
    for item in (item for worker in workers for item in worker.thinned):
        key = item.mode, item.collection, item.from_every, item.from_seconds, item.sources, item.raw, item.statistics
        known = widest.get(key)
        if known is None or _interval_length(item) > _interval_length(known):
            widest[key] = item
    return list(widest.values())


def _interval_length(item: ThrottledItem) -> float:
    return item.to_every or item.to_seconds or 0.0
