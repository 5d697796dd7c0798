"""Readers of profiles, in smdebug's interface; imported at their first use, because a training must not load them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_PLACES: Final = {
    "LocalAlgorithmMetricsReader": "algorithm_metrics_reader",
    "S3AlgorithmMetricsReader": "algorithm_metrics_reader",
    "LocalSystemMetricsReader": "system_metrics_reader",
    "S3SystemMetricsReader": "system_metrics_reader",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
