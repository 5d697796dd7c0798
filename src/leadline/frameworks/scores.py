"""Numbers of which the same come with every step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """A metric of one evaluation set."""

    name: str
    """``<set>-<metric>``."""
    is_loss: bool
    marks: tuple[str, ...] = ()
    """``training_set`` or ``validation_set``: collections that it is a member of beside its own."""


Scores = tuple[Score, ...]
"""Those of a training, the very same tuple as long as they stay the same."""
