"""The learning rate that an optimizer uses."""

from __future__ import annotations

import copy
from typing import Any

from mxnet.lr_scheduler import LRScheduler


def learning_rate_of(optimizer: Any) -> float | None:
    """Return the learning rate of the current update; None: only a function of the script knows it.

    A scheduler changes when it is called, so that a copy is.
    """
    scheduler = optimizer.lr_scheduler
    if scheduler is None:
        return float(optimizer.lr)
    if not isinstance(scheduler, LRScheduler):
        return None
    return float(copy.deepcopy(scheduler)(optimizer.num_update))
