"""Windows of a series that are evaluated, and overlap with windows that are trained on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.check.script_data import Array, as_array, first_failure, script_loaders
from leadline.records.formatting import share as percent

_MIN_LENGTH: Final = 16
"""Shorter samples are no windows, or have slices that are equal by chance."""
_MIN_SAMPLES: Final = 32
_MOST: Final = 0.5
"""The share of the windows from which on it is not the border of two parts of a series."""
_SAME: Final = 0.1
"""The share of whole samples from which on the training set itself is evaluated."""
_TRAINED, _EVALUATED = 2048, 256


def shared_windows() -> Tested | None:
    """Return the failure if most samples that a loader reads in order overlap with those that another one shuffles."""
    loaders = script_loaders()
    shuffled = [loader for loader in loaders if isinstance(loader.sampler, RandomSampler)]
    ordered = [loader for loader in loaders if isinstance(loader.sampler, SequentialSampler)]
    return first_failure(
        lambda end: (tested for one in shuffled for other in ordered for tested in _failures(one, other, end))
    )


def _failures(trained: DataLoader[Any], evaluated: DataLoader[Any], end: float) -> Iterator[Tested]:
    others = _windows(evaluated.dataset, _EVALUATED, end)
    length = len(others[0]) if others else 0
    if length < _MIN_LENGTH or len(others) < max(_MIN_SAMPLES, 2 * length):
        return
    own = _windows(trained.dataset, _TRAINED, end)
    if not own or own[0].shape != others[0].shape:
        return
    samples = {window.tobytes() for window in own}
    if sum(window.tobytes() in samples for window in others) >= _SAME * len(others):
        return
    width = length // 2
    slices = {piece for window in own for piece in _slices(window, width)}
    count = sum(any(piece in slices for piece in _slices(window, width)) for window in others)
    if count >= _MOST * len(others):
        yield failed(
            f"{percent(count / len(others))} of {len(others):,} windows that are evaluated share {width:,} steps or "
            "more with one that is trained on: neighbouring windows are on both sides of the split",
            "split the series by time before it is cut into windows, with a gap of one window",
            windows=len(others),
            shared=count,
        )


def _windows(dataset: Any, most: int, end: float) -> list[Array]:
    """Return some samples of a data set, ``(steps, features)`` each; empty: they are no windows of numbers."""
    count = len(dataset)
    found: list[Array] = []
    for at in range(0, count, max(1, -(-count // most))):
        window = _first(dataset[at]) if time.monotonic() < end else None
        if window is None or (found and window.shape != found[0].shape):
            return []
        found.append(window)
    return found


def _first(sample: Any) -> Array | None:
    """Return the first array of a sample if it may be a window, with the steps first; None: it is none."""
    values = sample.values() if isinstance(sample, Mapping) else sample if isinstance(sample, (tuple, list)) else ()
    array = as_array(next(iter(values), None))
    if array is None or array.ndim not in (1, 2) or array.dtype.kind != "f":
        return None
    array = array.reshape(len(array), -1)
    return np.ascontiguousarray(array if len(array) >= array.shape[1] else array.T)


def _slices(window: Array, width: int) -> Iterator[bytes]:
    """Yield the parts of a window of so many steps, without those in which values repeat."""
    have_values_once = len(np.unique(window[:, 0])) == len(window)
    for at in range(len(window) - width + 1):
        piece = window[at : at + width]
        if have_values_once or len(np.unique(piece[:, 0])) == width:
            yield piece.tobytes()
