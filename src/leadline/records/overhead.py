"""What watching took, as the workers' documents tell it: one number for every view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Document = Mapping[str, Any]


def step_share(workers: Iterable[Document]) -> float | None:
    """The share of the training's time that our code took of it in the training's thread.

    Units:
        A ratio, over all workers; None where no step was seen.
    """
    workers = list(workers)
    loop_ns = sum(int(each.get("loop_ns") or 0) for each in workers)
    return sum(int(each.get("own_ns") or 0) for each in workers) / loop_ns if loop_ns else None


def format_share(ratio: float) -> str:
    """``0.7 %``; what is too small to show is said so."""
    percent = 100 * ratio
    if 0 < percent < 0.1:
        return "under 0.1 %"
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


def throttled(workers: Iterable[Document]) -> list[dict[str, Any]]:
    """What the overhead budget thinned: an entry for each wish, as it stands where it is thinned most.

    Keys: ``collection``, ``mode``, ``from_every`` and ``to_every`` (steps of the mode; where seconds were asked,
    ``from_seconds`` and ``to_seconds``), ``since_step``, ``until_step`` (where it is captured as asked again),
    ``statistics``, ``raw`` and ``sources`` (who asked).
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for worker in workers:
        for each in worker.get("throttled") or ():
            key = (
                each["mode"],
                each["collection"],
                each["from_every"],
                each["from_seconds"],
                *each["sources"],
                each["raw"],
                *each["statistics"],
            )
            known = found.get(key)
            if known is None or _width(each) > _width(known):
                found[key] = dict(each)
    return list(found.values())


def _width(entry: Document) -> float:
    return float(entry["to_every"] or entry["to_seconds"] or 0)


def format_throttling(entries: Iterable[Document]) -> list[str]:
    """In few words what is thinned now: ``gradients, weights every 200 steps instead of 50``."""
    alike: dict[str, list[str]] = {}
    for each in entries:
        if each["until_step"] is None:
            alike.setdefault(_interval(each), []).append(_what(each))
    return [f"{', '.join(dict.fromkeys(names))} {interval}" for interval, names in alike.items()]


def _what(entry: Document) -> str:
    return f"{'raw ' if entry['raw'] else ''}{entry['collection'] or 'tensors by name'}"


def _interval(entry: Document) -> str:
    if entry["to_every"] is None:
        return f"every {entry['to_seconds']:g} s instead of {entry['from_seconds']:g}"
    mode = "" if entry["mode"] == "train" else f" of {entry['mode']}"
    return f"every {entry['to_every']:,} steps{mode} instead of {entry['from_every']:,}"
