"""Timing of the waits for a batch of ``gluon.data.DataLoader`` and of the iterators of ``mxnet.io``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mxnet.gluon.data import DataLoader
from mxnet.io import DataIter

from leadline.frameworks.kit.batch_waits import BatchWaits
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.timeline.step_timeline import StepTimeline


class DataLoading:
    """Reports to a timeline when the training requests a batch, and when it receives it.

    ``DataLoader.__iter__`` is a generator, and is replaced by one; nothing is stored in a loader.
    """

    def __init__(self) -> None:
        self._patches = Patches()

    def install(self, timeline: StepTimeline, guard: Guard) -> None:
        """Replace the methods."""
        waits = BatchWaits(timeline, guard)
        self._patches.replace(DataLoader, "__iter__", lambda original: _make_iter(original, timeline, guard, waits))
        self._patches.replace(DataIter, "__next__", waits.make_next)

    def uninstall(self) -> None:
        """Restore the methods."""
        self._patches.restore()


def _make_iter(
    original: Callable[..., Any], timeline: StepTimeline, guard: Guard, waits: BatchWaits
) -> Callable[..., Any]:
    def __iter__(loader: Any) -> Iterator[Any]:
        if not timeline.is_elsewhere():
            guard.run(timeline.begin_loader, loader._num_workers, getattr(loader._batch_sampler, "_batch_size", None))
        batches = original(loader)
        while True:
            try:
                batch = waits.take(batches.__next__)
            except StopIteration:
                return
            yield batch

    return __iter__
