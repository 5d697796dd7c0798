"""Scores on evaluation sets: the same metrics at every step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """A metric of one evaluation set."""

    name: str
    """``<set>-<metric>``."""
    is_loss: bool
    marks: tuple[str, ...] = ()
    """Collections that it belongs to beside its own: ``training_set`` or ``validation_set``."""


Scores = tuple[Score, ...]
"""The scores of a training: the identical tuple as long as they stay the same."""
