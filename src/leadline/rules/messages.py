"""Verdicts as all rules phrase them: the worst first, the others counted and listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from leadline.analysis.advice import Advice
from leadline.records.verdict import Clear, Fired, Undecided

if TYPE_CHECKING:
    from leadline.reader.window import Window


class Located(Protocol):
    """What is recorded of a tensor on a worker."""

    @property
    def tensor(self) -> str: ...
    @property
    def worker(self) -> str: ...


def fired(
    message: str,
    *found: Located | str,
    advice: Advice,
    evidence: Mapping[str, object] | None = None,
    noun: str = "",
    then: str = "",
    count: str = "",
    worker: str | None = None,
    since_step: int | None = None,
) -> Fired:
    """Return the verdict of a finding.

    Args:
        message: What is said of the worst one.
        found: The tensors, or names of devices, with the worst one first; names that occur again count once.
        noun: What the message counts the others as, in the singular; "": it does not count them.
        then: The end of the message, behind the count.
        count: The key of the evidence that has the number of names; "": none.
        worker: The affected worker; None: that of the first tensor.
    """
    names = tuple(dict.fromkeys(item if isinstance(item, str) else item.tensor for item in found))
    if worker is None and found and not isinstance(found[0], str):
        worker = found[0].worker
    return Fired(
        f"{message}{and_more(len(names) - 1, noun) if noun else ''}{then}",
        tensors=names,
        evidence={**(evidence or {}), **({count: len(names)} if count else {})},
        suggestion=advice,
        worker=worker,
        since_step=since_step,
    )


def and_more(count: int, noun: str = "tensor") -> str:
    """Return ``, and 3 more tensors`` for the rest after the worst one; "" if there is none."""
    return f", and {count:,} more {noun}{'s' * (count > 1)}" if count > 0 else ""


def too_few(seen: int, needed: int, noun: str) -> Undecided:
    """Return the verdict on a window that counts, while more of them are needed: ``12 of 25 losses needed``."""
    return Undecided(f"{seen:,} of {needed:,} {noun} needed", stage="too few")


def suspected(count: int, patience: int, noun: str = "captures") -> Undecided:
    """Return the verdict while fewer windows in a row than ``patience`` point to a finding.

    The reason: ``6 of 10 needed captures agree``.
    """
    return Undecided(f"{count:,} of {patience:,} needed {noun} agree", stage="suspected")


def clear_if_complete(window: Window, data: str) -> Clear | Undecided:
    """Return the verdict on a step without anything bad: undecided if part of its data was dropped.

    Args:
        data: What the rule evaluates, in the plural: ``gradients``.
    """
    return Undecided(f"{data} incomplete at this step (dropped)") if window.is_incomplete else Clear()
