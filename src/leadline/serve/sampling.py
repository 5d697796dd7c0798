"""Whether the system metrics of a job are sampled: ProfilerConfig, at the start and as UpdateTrainingJob changes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leadline.control.requests import ask, interval_request
from leadline.reader.run import Run
from leadline.records.request import SetInterval
from leadline.store.control import read_requests

PROFILER: Final = "ProfilerConfig"
INTERVAL: Final = "ProfilingIntervalInMilliseconds"
DEFAULT_INTERVAL_MS: Final = 500
_OFF: Final = "DisableProfiler"


def is_disabled(request: Mapping[str, Any]) -> bool:
    """Return whether a request disables the profiler."""
    return bool(request.get(PROFILER, {}).get(_OFF))


def switch_off(run: Run, reason: str) -> None:
    """Request the end of the sampling.

    Raises:
        LeadlineError: The run has ended.
        OSError: The request cannot be written.
    """
    ask(run, interval_request("off", reason=reason))


def was_changed(run: Run) -> bool:
    """Return whether another interval was requested, or the end of the sampling."""
    return any(isinstance(request, SetInterval) for request in read_requests(run.uri))


def was_profiled(request: Mapping[str, Any], run: Run) -> bool:
    """Return whether the profiler of a job was enabled at any time."""
    requests = [one for one in read_requests(run.uri) if isinstance(one, SetInterval)]
    return not is_disabled(request) or any(one.interval_ms for one in requests)
