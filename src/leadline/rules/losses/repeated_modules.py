"""One module that a list holds several times."""

from __future__ import annotations

from typing import Final

from leadline.records.names import REPEATED_MODULE
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(REPEATED_MODULE)


def note(known: dict[str, int], window: Window) -> None:
    """Note how often the lists of a model hold one module, by the names of the lists."""
    for reading in window.readings("value"):
        name, _, check = reading.tensor.rpartition("/")
        if check == REPEATED_MODULE:
            known[name] = int(reading.value)


def remark(known: dict[str, int]) -> str:
    """Return the remark on the first such list; empty: there is none."""
    for name, times in known.items():
        return (
            f"{name} holds one module {times} times, with one set of weights: [module] * {times} repeats it, and a "
            "comprehension makes several; right if they are to share their weights"
        )
    return ""
