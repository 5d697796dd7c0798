"""Events of a worker's timeline: phases with a duration, and instants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from leadline.records.json_object import JsonObject

TRAINING: Final = "training"
"""The name of the event at the first step of a training; its ``number`` counts those of the process from 1."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event in a worker."""

    name: str
    """``step_skipped``, ``clock_owner``, ``training``, ``capture_off``, ``data_lost``, ``forward`` …"""
    step: int
    """The global step during which it happened."""
    start_ns: int
    """Wall clock, ns since the epoch."""
    duration_ns: int = 0
    """0 for an instant."""
    phase: str = ""
    thread: int = 0
    args: JsonObject = field(default_factory=dict)
