"""States of which load_state_dict, which was not strict, has loaded nothing, or next to nothing."""

from __future__ import annotations

from typing import Final

from leadline.records.formatting import counted, number
from leadline.records.names import FITTING_ENTRIES, UNFIT_STATE
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(*UNFIT_STATE, *FITTING_ENTRIES)
_HINTS: Final = {
    FITTING_ENTRIES[0]: "with {what} removed from their names {count} would",
    FITTING_ENTRIES[1]: "with {what} before their names {count} would",
    FITTING_ENTRIES[2]: "its entry {what} holds {count} that would",
}


def note(known: dict[str, int], window: Window) -> None:
    """Note how many entries a state has, how many were loaded, and what would make the others fit."""
    for reading in window.readings("value"):
        if reading.tensor.rpartition("/")[2] in (*UNFIT_STATE, *FITTING_ENTRIES):
            known[reading.tensor] = int(reading.value)


def remark(known: dict[str, int]) -> str:
    """Return the remark on the first such state; empty: there is none."""
    for name, entries in known.items():
        model, _, check = name.rpartition("/")
        if check != UNFIT_STATE[0]:
            continue
        loaded = known.get(f"{model}/{UNFIT_STATE[1]}", 0)
        some, done = (f"only {number(loaded)}", "no more") if loaded else ("none", "nothing")
        return (
            f"{some} of the {counted(entries, 'entry', 'entries')} of a state fit {model}, so that "
            f"load_state_dict(strict=False) has loaded {done}{_hint(model, known)}"
        )
    return ""


def _hint(model: str, known: dict[str, int]) -> str:
    for name, count in known.items():
        start, _, check = name.rpartition("/")
        owner, _, what = start.partition("/")
        if check in _HINTS and owner == model:
            return ": " + _HINTS[check].format(what=f"`{what}`", count=number(count))
    return ""
