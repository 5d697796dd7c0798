"""The boundary around facts about loss calls: what fails there costs these facts, and nothing else that is captured."""

from __future__ import annotations

from collections.abc import Callable

from leadline.training.guard import Guard


def facts_guard(note: Callable[[str], None]) -> Guard:
    """Return a guard for code that finds facts about loss calls.

    Args:
        note: Takes a line about what is not captured, after the first failure.
    """
    return Guard(lambda failure: note(f"facts about loss calls are not captured: {failure}"))
