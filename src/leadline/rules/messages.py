"""Phrases that the messages of many rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.records.verdict import Clear, Undecided

if TYPE_CHECKING:
    from leadline.reader.window import Window


def and_more(count: int, noun: str = "tensor") -> str:
    """Return ``, and 3 more tensors`` for the rest after the worst one; "" if there is none."""
    return f", and {count:,} more {noun}{'s' * (count > 1)}" if count > 0 else ""


def too_few(seen: int, needed: int, noun: str) -> Undecided:
    """Return the verdict on a window that counts, while more of them are needed: ``12 of 25 losses so far``."""
    return Undecided(f"{seen:,} of {needed:,} {noun} so far", stage="too few")


def suspected(count: int, patience: int, noun: str = "captures") -> Undecided:
    """Return the verdict while fewer windows in a row than ``patience`` point to a finding.

    The reason: ``6 of 10 captures so far agree``.
    """
    return Undecided(f"{count:,} of {patience:,} {noun} so far agree", stage="suspected")


def clear_if_complete(window: Window, data: str) -> Clear | Undecided:
    """Return the verdict on a step without anything bad: undecided if part of its data was dropped.

    Args:
        data: What the rule evaluates, in the plural: ``gradients``.
    """
    return Undecided(f"{data} incomplete at this step (dropped)") if window.is_incomplete else Clear()
