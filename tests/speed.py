"""How much slower than the reference this machine is now."""

from __future__ import annotations

import time

REFERENCE_SECONDS = 0.0029
"""The loop of ``sample_speed`` on the machine for which ``tests/limits.toml`` and ``tests/durations.json`` hold."""


def sample_speed() -> float:
    """Return how many times longer than on the reference a fixed loop takes now."""
    began = time.process_time()
    total = 0
    for number in range(150_000):
        total += number & 7
    return (time.process_time() - began) / REFERENCE_SECONDS
