"""When memory runs out: whose it was is written down, and the error goes its way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from leadline.records.event import Event
from leadline.store import layout
from leadline.store.documents import make_leaf, write_document
from leadline.training.guard import Guard

MOST: Final = 5
"""So many times are written down; a script that tries again with smaller batches may run out often."""


class OutOfMemoryReport:
    """Writes ``profiles/<worker>/out-of-memory-<n>.json``.

    **A guard of its own** - what fails here is told, and nothing else ends.
    """

    def __init__(
        self,
        run: str,
        adapter: Any,
        *,
        worker: Callable[[], str],
        step: Callable[[], int],
        optimizers: Callable[[], list[Any]],
        note: Callable[[str], None],
        put_event: Callable[[Event], None],
    ) -> None:
        """
        Args:
            step: Gives the step under way.
            note: Takes a line for people.
        """
        self._run, self._adapter, self._worker, self._step = run, adapter, worker, step
        self._optimizers, self._note, self._put_event = optimizers, note, put_event
        self._count = 0
        self._guard = Guard(lambda why: note(f"whose the memory was when it ran out cannot be told: {why}"))
        self._watch = adapter.out_of_memory(lambda said: self._guard.run(self._tell, said))

    def listen(self) -> None:
        """There are steps now, and with them the accelerator that computes them."""
        self._guard.run(self._watch.start)

    def close(self, error: object) -> None:
        """The process ends.

        Args:
            error: What it ends with; None: with nothing.
        """
        self._watch.stop()
        if error is not None and self._count == 0 and self._adapter.is_out_of_memory(error):
            self._guard.run(self._tell, str(error).partition("\n")[0])

    def _tell(self, said: str) -> None:
        self._count += 1
        if self._count > MOST:
            return
        step, now = self._step(), time.time_ns()
        path = os.path.join(self._run, layout.out_of_memory(self._worker(), self._count))
        for folder in (os.path.dirname(os.path.dirname(path)), os.path.dirname(path)):
            make_leaf(folder)
        found = self._adapter.memory(self._optimizers())
        write_document(path, {"step": step, "time_ns": now, "error": said, "worker": self._worker(), **found})
        largest = found["modules"][0] if found["modules"] else None
        whose = f"; the largest module is {largest['module']} with {largest['bytes']:,} bytes" if largest else ""
        self._note(f"out of memory at step {step}: {said}{whose}")
        self._put_event(Event("out_of_memory", step, now, args={"error": said, "file": os.path.basename(path)}))
