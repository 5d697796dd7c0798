"""A pytest plugin that adds to each report what the phase of the test cost, for ``scripts/run_tests.py``.

That is the processor time of the test and of the processes that it waited for, and how many processes it started.
"""

from __future__ import annotations

import resource
import statistics
import sys
from collections.abc import Generator

import pytest
from speed import sample_speed

_EVERY = 40

_started = 0


def _count(event: str, arguments: tuple[object, ...]) -> None:
    global _started
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork"):
        _started += 1


sys.addaudithook(_count)


class Meter:
    """Measures the phases of the tests of this process."""

    def __init__(self) -> None:
        self._processor, self._processes = _processor_seconds(), _started
        self._tests = 0
        self._speeds = [sample_speed() for _ in range(3)]

    def lap(self) -> tuple[float, int]:
        """Return the processor time since the last call, and the number of processes started."""
        processor, processes = _processor_seconds(), _started
        spent = processor - self._processor, processes - self._processes
        self._processor, self._processes = processor, processes
        return spent

    @property
    def slowness(self) -> float:
        """How many times longer than on the reference things take on this machine, with its load."""
        self._tests += 1
        if self._tests % _EVERY == 0:
            self._speeds.append(sample_speed())
            self._processor = _processor_seconds()
        return statistics.median(self._speeds)


def pytest_runtest_logstart() -> None:
    _meter.lap()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    report.processor_seconds, report.processes = _meter.lap()
    report.slowness = _meter.slowness if report.when == "teardown" else 0.0
    report.is_slow = item.get_closest_marker("slow") is not None
    return report


def _processor_seconds() -> float:
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


_meter = Meter()
