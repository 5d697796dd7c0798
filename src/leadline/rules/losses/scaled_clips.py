"""Gradients that are clipped while a gradient scaler still multiplies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leadline.records.formatting import significant
from leadline.records.names import SCALED_CLIP
from leadline.rules import TensorNeed, Window

NEED: Final = TensorNeed.of_checks(*SCALED_CLIP)
_MIN_STEPS: Final = 3
_MUCH: Final = 100.0
"""How many times smaller than the scale a limit must be; one that was multiplied by the scale is not."""


@dataclass(slots=True)
class CapturedClips:
    """The steps at which a worker clipped gradients to a norm far below their scale."""

    steps: int = 0
    limit: float = 0.0
    scale: float = 0.0


def note(known: dict[str, CapturedClips], window: Window) -> None:
    """Note such a step of each worker."""
    found: dict[str, dict[str, float]] = {}
    for reading in window.readings("value"):
        check = reading.tensor.rpartition("/")[2]
        if check in SCALED_CLIP:
            found.setdefault(reading.worker, {})[check] = reading.value
    for worker, numbers in found.items():
        limit, norm, scale = (numbers.get(check, 0.0) for check in SCALED_CLIP)
        if 0 < limit < norm and _MUCH * limit <= scale:
            clips = known.setdefault(worker, CapturedClips())
            clips.steps, clips.limit, clips.scale = clips.steps + 1, limit, scale


def remark(known: dict[str, CapturedClips]) -> str:
    """Return the remark on such steps; empty: they are too few."""
    for clips in known.values():
        if clips.steps >= _MIN_STEPS:
            return (
                f"gradients were clipped to a norm of {significant(clips.limit)} at {clips.steps:,} captured steps "
                f"while the GradScaler still multiplied them by {clips.scale:,.0f}: after the division "
                f"{significant(clips.limit / clips.scale)} is left; call scaler.unscale_(optimizer) before "
                "clip_grad_norm_"
            )
    return ""
