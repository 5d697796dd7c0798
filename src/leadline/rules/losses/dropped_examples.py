"""Examples that a trainer leaves out before it trains."""

from __future__ import annotations

from typing import Final

from leadline.records.formatting import counted
from leadline.records.names import DROPPED_EXAMPLES
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(*DROPPED_EXAMPLES)
_MANY: Final = 0.1
"""The share of the examples above which that is worth saying: a few are long in any data."""


def note(known: dict[str, float], window: Window) -> None:
    """Note the numbers of examples."""
    for reading in window.readings("value"):
        check = reading.tensor.rpartition("/")[2]
        if check in DROPPED_EXAMPLES:
            known[check] = reading.value


def remark(known: dict[str, float]) -> str:
    """Return the remark on them; empty: there is none."""
    dropped, examples = (int(known.get(check, 0)) for check in DROPPED_EXAMPLES)
    if not dropped > _MANY * examples:
        return ""
    return (
        f"the trainer has left out {dropped:,} of {counted(examples, 'example')} of a data set, of which nothing was "
        "left to learn: usually the maximum length is shorter than prompt and answer, and cuts the answer off"
    )
