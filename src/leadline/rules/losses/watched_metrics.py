"""Callbacks of a trainer that take the worst value of a metric for the best one."""

from __future__ import annotations

from typing import Final

from leadline.records.names import WATCHED_DOWNWARDS, WATCHED_UPWARDS
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(WATCHED_UPWARDS, WATCHED_DOWNWARDS)


def note(known: list[str], window: Window) -> None:
    """Add the remark on each such callback."""
    for reading in window.readings("value"):
        owner, _, rest = reading.tensor.partition("/")
        metric, _, check = rest.rpartition("/")
        if check not in (WATCHED_UPWARDS, WATCHED_DOWNWARDS):
            continue
        taken, better = ("largest", "lower") if check == WATCHED_UPWARDS else ("smallest", "higher")
        remark = (
            f"{owner} takes the {taken} {metric} for the best one, though a {better} one is better: its mode, or "
            "greater_is_better, is the wrong way round"
        )
        if remark not in known:
            known.append(remark)
