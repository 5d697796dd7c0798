"""Blocks in which trials read new data, or do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from leadline.compat.smdebug.trials import Trial

T = TypeVar("T", Trial, Sequence[Trial])


@contextmanager
def no_refresh(trials: T) -> Iterator[T]:
    """Read no new data in the block, so that every call sees the same steps; yield the trials."""
    with _refreshing(trials, is_refreshed=False):
        yield trials


@contextmanager
def refresh(trials: T) -> Iterator[T]:
    """Read new data in the block; yield the trials."""
    with _refreshing(trials, is_refreshed=True):
        yield trials


@contextmanager
def _refreshing(trials: Trial | Sequence[Trial], *, is_refreshed: bool) -> Iterator[None]:
    several = [trials] if isinstance(trials, Trial) else list(trials)
    before = [trial.dynamic_refresh for trial in several]
    for trial in several:
        trial.dynamic_refresh = is_refreshed
    try:
        yield
    finally:
        for trial, was_refreshed in zip(several, before, strict=True):
            trial.dynamic_refresh = was_refreshed
