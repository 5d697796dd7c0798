"""Phrases that the messages of many rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.records.verdict import Clear, Undecided

if TYPE_CHECKING:
    from leadline.reader.window import Window


def and_more(count: int, noun: str = "tensor") -> str:
    """Return ``, and 3 more tensors`` for the rest after the worst one; "" if there is none."""
    return f", and {count:,} more {noun}{'s' * (count > 1)}" if count > 0 else ""


def clear_if_complete(window: Window, data: str) -> Clear | Undecided:
    """Return the verdict on a step without anything bad: undecided if part of its data was throttled or dropped.

    Args:
        data: What the rule evaluates, in the plural: ``gradients``.
    """
    return Undecided(f"{data} incomplete at this step (throttled or dropped)") if window.is_incomplete else Clear()
