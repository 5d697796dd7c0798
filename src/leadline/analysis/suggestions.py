"""What to try first about a bottleneck, in the terms of the framework that trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leadline.analysis.advice import Advice, frameworks_of
from leadline.analysis.loader_advice import loader_advice
from leadline.records.names import OTHER, OVERHEAD

INPUT, COMPUTE, COMMUNICATION, HOST, MEMORY = "input", "compute", "communication", "host", "memory"
"""The kinds of a bottleneck."""
OVERLOADED: Final = (
    "fewer processes on this machine, or fewer threads than cores, since more workers need free processors"
)
"""Comes first where the machine is overloaded, whatever else takes the time."""
SCORING: Final = "fewer, smaller evaluation sets or fewer metrics: all of them are scored after each round"
"""For boosted trees that spend their time scoring evaluation sets."""
_ADVICE: Final = {
    INPUT: Advice("{faster_input}"),
    "host wait": Advice("{read_ahead}"),
    "host": Advice("{less_host_work}"),
    "blocked": Advice("{find_blocked}"),
    OVERHEAD: Advice("{less_overhead}"),
    COMMUNICATION: Advice("{less_communication}"),
    COMPUTE: Advice("{faster_compute}"),
    MEMORY: Advice("{less_memory}"),
    "straggler": Advice("what is different on that rank: its node, device, data and what only it does"),
    "copy": Advice("{faster_copies}"),
    "checkpoint": Advice("{faster_checkpoints}"),
    OTHER: Advice("{less_between_phases}"),
    "idle": Advice("{busier_gpu}"),
}


def suggestions(framework: str, loader: tuple[int, int] | None = None) -> Mapping[str, str]:
    """Return what to try first, by the kind of a bottleneck or a phase.

    Args:
        framework: As ``advice.frameworks_of`` takes it.
        loader: The worker processes of the data loader, and the processors of its node; None: unknown.
    """
    frameworks = frameworks_of(framework)
    advices = _ADVICE if loader is None else {**_ADVICE, INPUT: loader_advice(*loader)}
    return {kind: advice.in_terms_of(frameworks).partition("; usually")[0] for kind, advice in advices.items()}
