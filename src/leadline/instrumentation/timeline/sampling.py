"""Sampling of step times: all steps are written, unless a training is so fast that they would fill the disk."""

from __future__ import annotations

from typing import Final

STEPS_PER_SECOND: Final = 10
"""Steps written per second in the long run."""
_SAVED_STEPS: Final = 2000
"""Steps that may be written at once after a slow phase."""
_CHECK_NS: Final = 250_000_000
_OUTLIER: Final = 4
_WORD: Final = 0xFFFFFFFF


class TimelineSampler:
    """Selects steps by their number alone, so that all ranks of a job select the same steps.

    **Unbiased** - of fast trainings one step in ``every``, a power of two, is written, hashed so that no period of the
    training can coincide with it. A step of more than four times the usual length is always written.
    """

    __slots__ = ("_checked_ns", "_saved", "_seen", "_written", "every", "outlier_ns")

    def __init__(self, now_ns: int) -> None:
        self.every = 1
        """The average interval between written steps."""
        self.outlier_ns = 1 << 62
        self._checked_ns = now_ns
        self._saved = float(_SAVED_STEPS)
        self._seen = self._written = 0

    def weight(self, step: int, duration_ns: int, now_ns: int) -> int:
        """Return the number of steps that this one represents; 0 if it is not written."""
        self._seen += 1
        if now_ns - self._checked_ns > _CHECK_NS:
            self._adapt(now_ns)
        if self.every == 1 or duration_ns > self.outlier_ns:
            weight = 1
        elif not self.chooses(step):
            return 0
        else:
            weight = self.every
        self._written += 1
        return weight

    def chooses(self, step: int) -> bool:
        """Return whether a step is selected by its number."""
        return self.every == 1 or not _hash(step) & (self.every - 1)

    def _adapt(self, now_ns: int) -> None:
        seconds = (now_ns - self._checked_ns) / 1e9
        self._saved = min(self._saved + STEPS_PER_SECOND * seconds - self._written, _SAVED_STEPS)
        rate = self._seen / seconds
        self.every = 1
        allowed = STEPS_PER_SECOND + max(self._saved, 0.0) / _CHECK_NS * 1e9  # until the next check
        while self.every < 1 << 16 and rate / self.every > allowed:
            self.every *= 2
        self.outlier_ns = int(_OUTLIER * 1e9 / rate)
        self._checked_ns, self._seen, self._written = now_ns, 0, 0


def _hash(step: int) -> int:
    """Return 32 bits, each of which depends on all bits of the step.

    Source:
        The finalizer of MurmurHash3 (Appleby, 2011).
    """
    mixed = step & _WORD
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    return mixed ^ mixed >> 16
