"""Report of the memory by owner when an accelerator runs out of memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from leadline.frameworks.capabilities import MeasuresMemory, MemoryWatch
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.step_context import StepContext
from leadline.records.event import Event
from leadline.records.memory_by_owner import MemoryAtError
from leadline.store import layout
from leadline.store.documents import make_subfolder, write_document

MAX_REPORTS: Final = 5
"""A script that retries with smaller batches may run out of memory often."""


class OutOfMemoryReport:
    """Writes ``profiles/<worker>/out-of-memory-<n>.json``; the error itself is not touched.

    **A guard of its own** - a failure in here is noted, and nothing else is affected.

    Args:
        optimizers: Returns the live optimizers that have stepped.
    """

    def __init__(self, context: StepContext, frameworks: LoadedAdapters, optimizers: Callable[[], list[Any]]) -> None:
        self._context, self._frameworks, self._optimizers = context, frameworks, optimizers
        self._count = 0
        self._guard = Guard(
            lambda error: context.note(f"memory by owner is not reported when memory runs out: {error}")
        )
        self._watch: MemoryWatch | None = None

    def start(self) -> None:
        """Begin to wait; called at the first step, when the accelerator is in use."""
        self._guard.run(self._start)

    def close(self, error: object) -> None:
        """Stop waiting at the end of the process.

        Args:
            error: The exception that ends it, if any.
        """
        if self._watch is not None:
            self._watch.stop()
        memory = self._frameworks.memory
        if error is not None and self._count == 0 and memory is not None and memory.is_out_of_memory(error):
            from leadline.config.secrets import scrub

            self._guard.run(self._write, scrub(str(error).partition("\n")[0]))

    def _start(self) -> None:
        memory = self._frameworks.memory
        if memory is not None:
            self._watch = memory.watch_memory(lambda message: self._guard.run(self._write, message))
            self._watch.start()

    def _is_measured(self, optimizer: object) -> bool:
        return isinstance(self._frameworks.adapter_of(optimizer), MeasuresMemory)

    def _write(self, message: str) -> None:
        self._count += 1
        memory = self._frameworks.memory
        if self._count > MAX_REPORTS or memory is None:
            return
        context, now = self._context, time.time_ns()
        step, worker = context.train_step, context.worker
        path = os.path.join(context.run, layout.out_of_memory(worker, self._count))
        for folder in (os.path.dirname(os.path.dirname(path)), os.path.dirname(path)):
            make_subfolder(folder)
        owners = memory.memory_by_owner([optimizer for optimizer in self._optimizers() if self._is_measured(optimizer)])
        report: MemoryAtError = {"step": step, "time_ns": now, "error": message, "worker": worker, **owners}
        write_document(path, report)
        largest = owners["modules"][0] if owners["modules"] else None
        suffix = f"; the largest module is {largest['module']} with {largest['bytes']:,} bytes" if largest else ""
        context.note(f"out of memory at step {step}: {message}{suffix}")
        args = {"error": message, "file": os.path.basename(path)}
        context.put_event(Event("out_of_memory", context.step, now, args=args))
