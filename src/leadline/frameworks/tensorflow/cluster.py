"""The job of several processes that this one is part of, as its environment describes it."""

from __future__ import annotations

import json
import os
from typing import Any


def processes() -> int:
    """Return the number of processes that train together: of ``TF_CONFIG``, or of Horovod."""
    return max(len(_trainers()), int(os.environ.get("HOROVOD_SIZE") or 1))


def rank() -> int | None:
    """Return the rank of this process; None if it trains alone, or is no worker."""
    if len(_trainers()) > 1:
        task = _config().get("task", {})
        place = (task.get("type"), int(task.get("index", 0)))
        return _trainers().index(place) if place in _trainers() else None
    return int(os.environ["HOROVOD_RANK"]) if processes() > 1 else None


def _trainers() -> list[tuple[str, int]]:
    """Return the tasks that train, in the order of their ranks: the chief comes first."""
    cluster = _config().get("cluster", {})
    return [(kind, index) for kind in ("chief", "worker") for index in range(len(cluster.get(kind, ())))]


def _config() -> dict[str, dict[str, Any]]:
    try:
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    except ValueError:  # TensorFlow itself says so
        return {}
    return config if isinstance(config, dict) else {}
