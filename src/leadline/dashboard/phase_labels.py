"""What the phases and events of a timeline are called on a page."""

from __future__ import annotations

from typing import Final

_WORDS: Final = {
    "data": "waiting for data",
    "copy": "copy to the device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "collective": "collectives between ranks",
    "checkpoint": "checkpoint",
    "watching": "Leadline's own work",
    "other": "other work of the loop",
    "eval": "evaluation",
    "predict": "prediction",
    "imports": "imports",
    "setup": "data, model and device set-up",
    "first_step": "compilation and first step",
    "capture_thinned": "capture was thinned to the budget",
    "capture_widened": "capture was widened again",
    "initialization": "initialization",
    "training_loop": "training loop",
    "finalization": "finalization",
}


def phase_words(name: str) -> str:
    """``waiting for data`` of ``data``; what has no words of its own is said as it is."""
    return _WORDS.get(name, name.replace("_", " "))
