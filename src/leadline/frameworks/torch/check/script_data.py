"""Data sets of the script's loaders, of which samples are read again on the copy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, IterableDataset

from leadline.frameworks.check.outcome import Tested
from leadline.frameworks.torch.check.script_variables import script_namespaces
from leadline.instrumentation.guard import failure_of

_SECONDS: Final = 3.0
_MAX_LOADERS: Final = 6

Array = npt.NDArray[Any]


def script_loaders() -> list[DataLoader[Any]]:
    """Return the loaders among the script's variables whose samples have an index."""
    known: dict[int, DataLoader[Any]] = {}
    for namespace in script_namespaces():
        for value in list(namespace.values()):
            if isinstance(value, DataLoader) and not isinstance(value.dataset, IterableDataset):
                known.setdefault(id(value), value)
    return [loader for loader in list(known.values())[:_MAX_LOADERS] if not _shares_memory(loader.dataset)]


def first_failure(find: Callable[[float], Iterator[Tested]]) -> Tested | None:
    """Return the first failure that is found by reading samples; None: there is none, or they cannot be read again.

    A thread reads them, which is not waited for without end: what a data set does is not known.

    Args:
        find: Yields failures; its argument is the time at which it is to end.
    """
    found: list[Tested] = []

    def read() -> None:
        failure_of(lambda: found.extend(find(time.monotonic() + _SECONDS)))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(2 * _SECONDS)
    return found[0] if found else None


def _shares_memory(dataset: Any) -> bool:
    """Return whether a data set keeps memory that the training would see changed, if to read a sample changes it."""
    return any(
        value.is_shared() if isinstance(value, torch.Tensor) else isinstance(value, np.memmap) and value.mode != "c"
        for value in getattr(dataset, "__dict__", {}).values()
    )


def as_array(value: Any) -> Array | None:
    """Return what a sample holds as an array of numbers; None: it is something else."""
    if isinstance(value, torch.Tensor):
        value = value.detach().numpy()
    array = np.asarray(value) if hasattr(value, "__array__") else None
    return array if array is not None and array.dtype.kind in "biuf" else None
