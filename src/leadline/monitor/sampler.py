"""The sampler: reads some numbers of the machine, again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from leadline.records.metric import Channel


class Sampler(Protocol):
    """Reads the channels of one kind.

    **Absent, not 0**
    A number that could not be read, or is not known yet (a rate at its first reading), is None, and never 0.
    **Constant channels**
    ``channels`` is the same tuple as long as the same things are there; a sample has one value for each, in
    order. A change shows when the sample has been taken that it belongs to.
    **Said once**
    Why a channel has no value stands in ``absent``, under ``<device>.<metric>`` or the sampler's kind.
    **Cheap**
    One call costs well under a millisecond of processor time, whatever else runs on the machine.
    **Never the end**
    What it raises costs this one sample of this one sampler; the loop reports it and goes on.
    """

    kind: str
    """As in ``Channel.kind``."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        """What it reads."""

    @property
    def absent(self) -> Mapping[str, str]:
        """What it cannot read, and why."""

    def sample(self, now: float) -> Sequence[float | None]:
        """One value for each channel; ``now`` is the monotonic clock in seconds."""


class Rate:
    """Turns a counter into a rate."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def per_second(self, count: float | None, now: float) -> float | None:
        """The growth per second since the last call; None at the first, and where the counter went back."""
        last, self._last = self._last, None if count is None else (now, count)
        if count is None or last is None or now <= last[0] or count < last[1]:
            return None
        return (count - last[1]) / (now - last[0])
