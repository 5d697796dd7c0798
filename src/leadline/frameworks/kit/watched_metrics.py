"""Metrics by which a trainer keeps the best model, or stops, in a direction that their names contradict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from leadline.records.metric_names import is_upward
from leadline.records.names import WATCHED_DOWNWARDS, WATCHED_UPWARDS

Watched = tuple[str, str, bool]
"""Who watches a metric, the metric, and whether its largest value is taken for the best."""
_MODES: Final = {"max": True, "min": False}


def checks_of(watched: Iterable[Watched]) -> dict[str, float]:
    """Return the checks of those that watch a metric the wrong way round."""
    return {
        f"{owner}/{metric}/{WATCHED_UPWARDS if upwards else WATCHED_DOWNWARDS}": 1.0
        for owner, metric, upwards in watched
        if is_upward(metric) is (not upwards)
    }


def of_callbacks(callbacks: object) -> Iterator[Watched]:
    """Yield what the callbacks of Keras or Lightning watch, as far as the script has given them a mode.

    Args:
        callbacks: A list of them; anything else has none.
    """
    for callback in callbacks if isinstance(callbacks, list) else ():
        metric, mode = _text(callback, "monitor"), _text(callback, "mode")
        if metric is not None and mode in _MODES:
            yield type(callback).__name__, metric, _MODES[mode]


def _text(callback: Any, name: str) -> str | None:
    value = getattr(callback, name, None)
    return value if isinstance(value, str) else None
