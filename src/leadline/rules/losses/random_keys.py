"""Random numbers that are the same at every train step."""

from __future__ import annotations

from typing import Final

from leadline.records.names import SAME_RANDOM_KEYS
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(SAME_RANDOM_KEYS)
_MIN_STEPS: Final = 5


def note(known: dict[str, int], window: Window) -> None:
    """Note at how many captured steps each function drew the same random numbers, 0: it has drawn others."""
    for reading in window.readings("value"):
        name, _, check = reading.tensor.rpartition("/")
        if check == SAME_RANDOM_KEYS:
            known[name] = int(reading.value)


def remark(known: dict[str, int]) -> str:
    """Return the remark on such a function; empty: there is none."""
    for name, steps in known.items():
        if steps >= _MIN_STEPS:
            return (
                f"all random numbers of {name} were drawn by the same key at all {steps:,} captured steps, so that "
                "dropout drops the same units at every step: give each step a key of its own, by "
                "jax.random.fold_in(key, step) or jax.random.split"
            )
    return ""
