"""Data sets that mirror an image and leave its mask as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.check.script_data import Array, as_array, first_failure, script_loaders

_SAMPLES: Final = 4
_DRAWS: Final = 10
_MAX_LEVELS: Final = 64
"""A mask has no more different values."""
_CHANNELS: Final = 4
_NAMES: Final = {-1: "left to right", -2: "top to bottom"}


def mirrored_images() -> Tested | None:
    """Return the failure if a data set of the script's loaders mirrors images at random, and never their masks."""
    known = {id(loader.dataset): loader.dataset for loader in script_loaders()}
    return first_failure(lambda end: (tested for one in known.values() for tested in _failures(one, end)))


def _failures(dataset: Any, end: float) -> Iterator[Tested]:
    axes = [axis for at in range(min(_SAMPLES, len(dataset))) for axis in _kept(_drawn(dataset, at, end))]
    alone = [axis for axis in axes if axis is not None]
    if len(alone) == len(axes) > 1:
        yield failed(
            f"{type(dataset).__name__} mirrors images at random, {_NAMES[alone[0]]}, and not their masks",
            "apply one random flip to the image and its mask",
        )


def _drawn(dataset: Any, at: int, end: float) -> list[tuple[Array, Array]]:
    """Return the image and the mask of a sample each time that it is read; empty: it has no such two."""
    found = []
    for _ in range(_DRAWS):
        pair = _image_and_mask(dataset[at]) if time.monotonic() < end else None
        if pair is None:
            return []
        found.append(pair)
    return found


def _image_and_mask(sample: Any) -> tuple[Array, Array] | None:
    values = sample.values() if isinstance(sample, Mapping) else sample if isinstance(sample, (tuple, list)) else ()
    arrays = [array for value in values if (array := _planes(value)) is not None]
    if len(arrays) != 2 or arrays[0].shape[-2:] != arrays[1].shape[-2:]:
        return None
    levels = np.unique(arrays[1])
    is_mask = 1 < len(levels) <= _MAX_LEVELS and bool((levels == np.floor(levels)).all())
    return (arrays[0], arrays[1]) if is_mask else None


def _planes(value: Any) -> Array | None:
    """Return a picture as ``(channels, height, width)``; None: it is none."""
    array = as_array(value)
    if array is None or array.ndim not in (2, 3):
        return None
    if array.ndim == 2:
        return array[None]
    return array if array.shape[0] <= _CHANNELS else np.moveaxis(array, -1, 0) if array.shape[-1] <= _CHANNELS else None


def _kept(drawn: Sequence[tuple[Array, Array]]) -> Iterator[int | None]:
    """Yield the axis along which an image was mirrored once and its mask was not; None: the mask differs as well."""
    if any(not np.array_equal(first, second) for (_, first), (_, second) in pairwise(drawn)):
        yield None
        return
    image, mask = drawn[0] if drawn else (np.zeros(0), np.zeros(0))
    for axis in _NAMES if drawn else ():
        mirrored, is_even = np.flip(image, axis), np.array_equal(np.flip(mask, axis), mask)
        if is_even or np.array_equal(mirrored, image):
            continue
        if any(np.array_equal(other, mirrored) for other, _ in drawn[1:]):
            yield axis
            return
