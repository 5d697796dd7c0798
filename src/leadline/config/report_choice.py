"""Whether a run gets a report at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MIN_SECONDS: Final = 60.0
"""A report takes about two seconds of a processor and 1.6 MB: a few percent of a run that took a minute."""
VARIABLE: Final = "LEADLINE_REPORT"
_OFF: Final = ("0", "false", "no", "off")


def wants_report(choice: bool | None, environment: Mapping[str, str], seconds: float, *, has_steps: bool) -> bool:
    """Return whether a run gets a report.

    Args:
        choice: What its options or its configuration file say; None: nothing.
        environment: Where ``LEADLINE_REPORT`` says it for all runs.
        seconds: How long it took.
        has_steps: Whether a step was seen.
    """
    if choice is not None:
        return choice
    given = environment.get(VARIABLE, "").lower()
    return given not in _OFF if given else has_steps and seconds >= MIN_SECONDS
