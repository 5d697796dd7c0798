"""Which steps' times are written: all, until a training is so fast that they would fill the disk."""

from __future__ import annotations

from typing import Final

STEPS_PER_SECOND: Final = 200
"""So many steps are written in the long run."""
_SAVED_STEPS: Final = 2000
"""So many may be written at once, where few were before."""
_LOOK_NS: Final = 250_000_000
_OUTLIER: Final = 4
_SCATTER: Final = 2654435761  # Knuth's multiplicative hash


class TimelineSampler:
    """Chooses steps by their number alone, so that the ranks of a job choose alike.

    **Unbiased** - of fast trainings one step in ``every`` is written, a power of two, at places that no period of the
    training can meet. A step of more than four times the usual length is written whatever its number.
    """

    __slots__ = ("_at_look", "_looked_ns", "_saved", "_seen", "_written", "every", "outlier_ns")

    def __init__(self, now_ns: int) -> None:
        self.every = 1
        """One step in so many is written."""
        self.outlier_ns = 1 << 62
        self._looked_ns = now_ns
        self._saved = float(_SAVED_STEPS)
        self._seen = self._written = 0

    def weight(self, step: int, duration_ns: int, now_ns: int) -> int:
        """For how many steps this one stands; 0: it is not written."""
        self._seen += 1
        if now_ns - self._looked_ns > _LOOK_NS:
            self._look(now_ns)
        if self.every == 1 or duration_ns > self.outlier_ns:
            found = 1
        elif not self.chooses(step):
            return 0
        else:
            found = self.every
        self._written += 1
        return found

    def chooses(self, step: int) -> bool:
        """Whether a step is one that is written, whatever it will be like."""
        return self.every == 1 or not (step * _SCATTER & 0xFFFFFFFF) >> 16 & (self.every - 1)

    def _look(self, now_ns: int) -> None:
        seconds = (now_ns - self._looked_ns) / 1e9
        self._saved = min(self._saved + STEPS_PER_SECOND * seconds - self._written, _SAVED_STEPS)
        rate = self._seen / seconds
        self.every = 1
        allowed = STEPS_PER_SECOND + max(self._saved, 0.0) / _LOOK_NS * 1e9  # until the next look
        while self.every < 1 << 16 and rate / self.every > allowed:
            self.every *= 2
        self.outlier_ns = int(_OUTLIER * 1e9 / rate)
        self._looked_ns, self._seen, self._written = now_ns, 0, 0
