"""Which signals were sent to the whole process group, so that the job has received them as well."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Collection
from typing import Final

from leadline.agent.signals import TO_PASS_ON, SignalGate, signal_set
from leadline.process.child import Child

_COMMAND: Final = (sys.executable, "-I", "-S", "-c", "import os; os.read(0, 1)  # sees which signals its group gets")
_DELIVERY_SECONDS: Final = 0.05
"""How long a signal takes at most from one process of the group to the next, where each is sent its own."""
_LOOK_SECONDS: Final = 0.005
_KERNEL: Final = 0
"""The sender of the signals of a terminal."""
_OWED_SECONDS: Final = 10.0
"""How long a signal may be under way to this process after it has reached the group."""


class GroupWitness:
    """A process in the group of this one and the job that blocks all signals: what is pending there came to the group.

    Neither the sender nor the kind of a signal tells whether it was sent to one process or to the group, and what is
    pending at the job itself is gone once the job has handled it. Once the witness has seen a signal, another one takes
    its place. It ends with this process.

    Args:
        gate: Starts and reaps it; its pid is among ``gate.witnesses``.
    """

    def __init__(self, gate: SignalGate) -> None:
        self._gate = gate
        self._child: Child | None = None
        self._lifeline = -1
        self._owed: dict[int, tuple[float, int | None]] = {}
        """Signals that have reached the group and are still under way to this process: until when, and the sender."""

    def start(self) -> None:
        """Start to watch, once the job has started; without a witness every signal counts as sent to this process."""
        ours, self._lifeline = os.pipe()
        try:
            self._child = self._gate.spawn(list(_COMMAND), {}, streams={0: ours}, blocked=TO_PASS_ON)
        except OSError:  # no more processes are allowed
            self._end_lifeline()
        else:
            self._gate.witnesses.add(self._child.pid)
        finally:
            os.close(ours)

    def has_seen(self, number: int, sender: int) -> bool:
        """Return whether a signal that this process has just received was sent to the group.

        Args:
            sender: The process that sent it.
        """
        owed_until, owed_by = self._owed.pop(number, (0.0, None))
        if time.monotonic() < owed_until and owed_by in (None, sender):
            self._owe({number} & signal.sigpending() - self._pending(), sender)  # real-time signals are queued
            return True
        until = time.monotonic() + _DELIVERY_SECONDS
        while number not in (pending := self._pending()):
            if self._child is None or time.monotonic() >= until:
                return False
            time.sleep(_LOOK_SECONDS)
        self._replace(pending, number, sender)
        return True

    def refresh(self, received: int = 0) -> None:
        """Forget what the terminal has sent, and replace a witness that was killed.

        Args:
            received: The signal of the terminal that this process has just received; 0: none.
        """
        if self._child is not None and self._child.code is not None:
            self.stop()
            self.start()
        elif pending := self._pending():
            self._replace(pending, received, _KERNEL)

    def stop(self) -> None:
        """End the witness."""
        if self._child is not None:
            self._child.kill()
        self._child = None
        self._end_lifeline()

    def _replace(self, pending: frozenset[int], number: int, sender: int) -> None:
        """Start a new witness, and remember what the old one has seen and this process has not received yet.

        Args:
            number: The signal that this process has received; the same one again would not be seen twice, and counts
                as sent to the group if the sender is the same. 0: none.
        """
        old, lifeline = self._child, self._lifeline
        self.start()
        pending |= _pending_at(old.pid) if old is not None else frozenset()
        now_pending = self._pending()
        self._owe(pending - {number} - now_pending)
        self._owe({number} & signal.sigpending() - now_pending, sender)
        if old is not None:
            old.kill()
            os.close(lifeline)

    def _owe(self, numbers: Collection[int], sender: int | None = None) -> None:
        self._owed |= dict.fromkeys(numbers, (time.monotonic() + _OWED_SECONDS, sender))

    def _pending(self) -> frozenset[int]:
        return frozenset() if self._child is None else _pending_at(self._child.pid)

    def _end_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def _pending_at(pid: int) -> frozenset[int]:
    """Return the signals that are pending at a process."""
    return signal_set(pid, "ShdPnd")
