"""Labels of timeline phases and events."""

from __future__ import annotations

from typing import Final

_LABELS: Final = {
    "data": "data loading",
    "copy": "host-to-device copy",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "collective": "collective communication",
    "checkpoint": "checkpoint",
    "watching": "Leadline overhead",
    "other": "other",
    "eval": "evaluation",
    "predict": "prediction",
    "imports": "imports",
    "setup": "data, model and device setup",
    "first_step": "compilation and first step",
    "capture_thinned": "capture throttled (overhead budget)",
    "capture_widened": "capture throttling relaxed",
    "initialization": "initialization",
    "training_loop": "training loop",
    "finalization": "finalization",
}


def phase_label(name: str) -> str:
    """Return the label of a phase or event: ``data loading`` for ``data``; the name itself if it has no label."""
    return _LABELS.get(name, name.replace("_", " "))
