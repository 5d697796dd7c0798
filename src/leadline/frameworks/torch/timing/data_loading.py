"""Timing of the wait for data, measured in ``next`` of the iterators of PyTorch's data loaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader

from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.training.guard import Guard
from leadline.training.timeline.step_timeline import StepTimeline


class DataLoaderHooks:
    """Reports to a timeline when the training requests a batch from a loader, and when it receives it.

    Two methods are wrapped, both on classes: ``next`` of the loaders' iterators, and the one that creates an iterator
    (which starts its workers). Nothing is stored in a loader; loaders other than PyTorch's are not observed.
    """

    def __init__(self, timeline: StepTimeline, guard: Guard) -> None:
        self._timeline, self._guard = timeline, guard
        self._patches = Patches()

    def install(self) -> None:
        """Install the patches."""
        self._patches.replace(dataloader._BaseDataLoaderIter, "__next__", self._make_next)
        self._patches.replace(dataloader.DataLoader, "_get_iterator", self._make_get_iterator, is_optional=True)

    def uninstall(self) -> None:
        """Remove the patches."""
        self._patches.restore()

    def _make_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        timeline, run = self._timeline, self._guard.run
        begin, end = timeline.begin_data, timeline.end_data

        def __next__(iterator: Any) -> Any:
            if timeline.is_elsewhere():
                return original(iterator)
            run(begin)
            try:
                return original(iterator)
            except StopIteration:
                run(timeline.exhaust)
                raise
            finally:
                run(end)

        return hide_from_dynamo(__next__)

    def _make_get_iterator(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        timeline, run, describe = self._timeline, self._guard.run, self._describe

        def _get_iterator(loader: Any) -> Any:
            if timeline.is_elsewhere():
                return original(loader)
            run(describe, loader)
            try:
                return original(loader)
            finally:
                run(timeline.end_data)

        return hide_from_dynamo(_get_iterator)

    def _describe(self, loader: Any) -> None:
        size = getattr(loader, "batch_size", None)
        if size is None:
            size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
        self._timeline.begin_loader(loader.num_workers, size if isinstance(size, int) else None)
