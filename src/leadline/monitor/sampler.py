"""The sampler protocol: periodic reading of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from leadline.records.metric import Channel


class Sampler(Protocol):
    """Reads the channels of one kind of hardware.

    **Absent, not 0**
    A value that could not be read, or is not known yet (a rate at its first reading), is None, never 0.
    **Constant channels**
    ``channels`` is the same tuple as long as the devices do not change; a sample has one value per channel, in
    order. A change is visible after the first sample that includes it.
    **Reasons**
    The reason why a channel has no value is in ``absent``, under ``<device>.<metric>`` or the sampler's kind.
    **Cheap**
    One call takes well under a millisecond of CPU time, whatever else runs on the machine.
    **Isolated**
    An exception costs this one sample of this one sampler; the sampler loop reports it and continues.
    """

    kind: str
    """The kind as in ``Channel.kind``."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels that are read."""

    @property
    def absent(self) -> Mapping[str, str]:
        """The metrics that cannot be read, with the reasons."""

    def sample(self, now: float) -> Sequence[float | None]:
        """Return one value for each channel; ``now`` is the monotonic clock in seconds."""


class Rate:
    """Converts a counter to a rate."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def per_second(self, count: float | None, now: float) -> float | None:
        """Return the growth per second since the last call; None at the first call, or if the counter decreased."""
        last, self._last = self._last, None if count is None else (now, count)
        if count is None or last is None or now <= last[0] or count < last[1]:
            return None
        return (count - last[1]) / (now - last[0])
