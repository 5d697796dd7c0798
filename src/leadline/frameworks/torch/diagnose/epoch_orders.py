"""Epochs that a sampler of distributed data shuffles alike."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DistributedSampler

from leadline.frameworks.patches import Patches
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import HookGuard
from leadline.records.names import EPOCHS_IN_ONE_ORDER


class EpochOrders:
    """Counts how often each ``DistributedSampler`` began an epoch in a row without another ``set_epoch``.

    Args:
        is_evaluating: Whether a trained model is in eval mode: what an evaluation reads is not counted.
    """

    def __init__(self, guard: HookGuard, is_evaluating: Callable[[], bool]) -> None:
        self._guard, self._is_evaluating, self._patches = guard, is_evaluating, Patches()
        self._epochs: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
        """By sampler the number that its epochs were shuffled with, and how many in a row."""

    def install(self) -> None:
        """Replace the method that begins an epoch."""
        self._patches.replace(DistributedSampler, "__iter__", self._make_iter)

    def uninstall(self) -> None:
        """Restore it."""
        self._patches.restore()

    def results(self) -> dict[str, float]:
        """Return the check; empty: no sampler shuffles data for several ranks."""
        counts = [count for _, count in self._epochs.values()]
        return {f"DistributedSampler/{EPOCHS_IN_ONE_ORDER}": float(max(counts))} if counts else {}

    def _make_iter(self, original: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
        guard, begin = self._guard, self._begin

        def __iter__(sampler: Any) -> Iterator[Any]:
            guard.run(begin, sampler)
            return original(sampler)

        return hide_from_dynamo(__iter__)

    def _begin(self, sampler: Any) -> None:
        if not sampler.shuffle or sampler.num_replicas < 2 or self._is_evaluating():
            return
        epoch, count = self._epochs.get(sampler, (sampler.epoch, 0))
        self._epochs[sampler] = sampler.epoch, count + 1 if sampler.epoch == epoch else 1
