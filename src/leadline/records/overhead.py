"""Overhead and throttling of a run, computed from the workers' documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Document = Mapping[str, Any]


def step_share(workers: Iterable[Document]) -> float | None:
    """Return the share of the training thread's time that Leadline took.

    Units:
        A ratio over all workers; None if no step was recorded.
    """
    workers = list(workers)
    loop_ns = sum(int(worker.get("loop_ns") or 0) for worker in workers)
    return sum(int(worker.get("own_ns") or 0) for worker in workers) / loop_ns if loop_ns else None


def format_share(ratio: float) -> str:
    """``0.7 %``; ``under 0.1 %`` for smaller values above 0."""
    percent = 100 * ratio
    if 0 < percent < 0.1:
        return "under 0.1 %"
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


def throttled(workers: Iterable[Document]) -> list[dict[str, Any]]:
    """Return the capture items throttled by the overhead budget, each as in the worker that throttles it most.

    Keys: ``collection``, ``mode``, ``from_every`` and ``to_every`` (steps of the mode; for intervals in seconds
    ``from_seconds`` and ``to_seconds``), ``since_step``, ``until_step`` (the step from which it is captured as planned
    again), ``statistics``, ``raw`` and ``sources`` (the sources of the requests).
    """
    widest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for worker in workers:
        for entry in worker.get("thinned") or ():
            key = (
                entry["mode"],
                entry["collection"],
                entry["from_every"],
                entry["from_seconds"],
                *entry["sources"],
                entry["raw"],
                *entry["statistics"],
            )
            known = widest.get(key)
            if known is None or _interval_length(entry) > _interval_length(known):
                widest[key] = dict(entry)
    return list(widest.values())


def _interval_length(entry: Document) -> float:
    return float(entry["to_every"] or entry["to_seconds"] or 0)


def format_throttling(entries: Iterable[Document]) -> list[str]:
    """Format the current throttling: ``gradients, weights every 200 steps instead of 50``."""
    by_interval: dict[str, list[str]] = {}
    for entry in entries:
        if entry["until_step"] is None:
            by_interval.setdefault(_format_interval(entry), []).append(_format_subject(entry))
    return [f"{', '.join(dict.fromkeys(names))} {interval}" for interval, names in by_interval.items()]


def _format_subject(entry: Document) -> str:
    return f"{'raw ' if entry['raw'] else ''}{entry['collection'] or 'tensors by name'}"


def _format_interval(entry: Document) -> str:
    if entry["to_every"] is None:
        return f"every {entry['to_seconds']:g} s instead of {entry['from_seconds']:g}"
    mode = "" if entry["mode"] == "train" else f" of {entry['mode']}"
    return f"every {entry['to_every']:,} steps{mode} instead of {entry['from_every']:,}"
