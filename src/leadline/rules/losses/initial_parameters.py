"""Functions that use the parameters with which a training began in place of the current ones."""

from __future__ import annotations

from typing import Final

from leadline.records.formatting import counted
from leadline.records.names import USES_INITIAL_PARAMETERS
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(USES_INITIAL_PARAMETERS)


def note(known: dict[str, int], window: Window) -> None:
    """Note how many arrays of the first step each such function uses."""
    for reading in window.readings("value"):
        name, _, check = reading.tensor.rpartition("/")
        if check == USES_INITIAL_PARAMETERS:
            known[name] = int(reading.value)


def remark(known: dict[str, int]) -> str:
    """Return the remark on such a function; empty: there is none."""
    for name, arrays in known.items():
        return (
            f"{name} is given the current parameters and does not use them: it computes with "
            f"{counted(arrays, 'array')} that the training began with, which the function has taken from the script; "
            "let it use its arguments"
        )
    return ""
