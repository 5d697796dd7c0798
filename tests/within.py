"""A pytest plugin that leaves a part of the slow tests to other days, for ``scripts/run_tests.py --within``.

On a machine where every test would take longer than there is time, a run has all everyday tests, and the units of slow
ones that fit. Which ones they are changes from day to day, so that each runs again within a few days. A machine may
become slower meanwhile: after three quarters of the time no slow test begins.
"""

from __future__ import annotations

import os
import time
import zlib
from collections import defaultdict
from collections.abc import Mapping
from math import ceil

import pytest
from units import expected_seconds, unit_of

VARIABLE = "TESTS_WITHIN"
"""Seconds that the units may take together on the reference, the number of the day, and the time after which no slow
test begins, in seconds since the epoch: ``5400 20786 1796030000``."""
LEFT_OUT = "left_out"
TOO_LATE = "left to another day: the machine became slower"
_LEAST_SHARE = 0.1
"""The share of the slow tests that also the slowest machine runs."""
_OTHERS_SECONDS = 200.0
"""What the unit tests take together that are too short to be recorded one by one."""


def of_the_day(seconds: Mapping[str, float], available: float, day: int) -> set[str]:
    """Return the units that run on a day: from where its part of all begins, as many as fit.

    Args:
        seconds: What each unit takes.
        available: What those of a day may take together.
        day: The number of the day; all units have run after ``days_of_all``.
    """
    total = sum(seconds.values())
    if total <= available:
        return set(seconds)
    days = days_of_all(total, available)
    begin, position, chosen = day % days * total / days, 0.0, set()
    for unit in sorted(seconds, key=lambda name: zlib.crc32(name.encode())):
        if (position - begin) % total < available:
            chosen.add(unit)
        position += seconds[unit]
    return chosen


def days_of_all(total: float, available: float) -> int:
    """Return within how many days each unit runs."""
    return max(1, ceil(total / available))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    available, day, _ = os.environ[VARIABLE].split()
    units = {item: unit_of(item.nodeid, config.rootpath) for item in items}
    everyday, slow = _OTHERS_SECONDS, dict[str, float]()
    tests, slow_tests = defaultdict[str, list[pytest.Item]](list), defaultdict[str, list[pytest.Item]](list)
    for item, unit in units.items():
        tests[unit].append(item)
        if item.get_closest_marker("slow") is not None:
            slow_tests[unit].append(item)
    for unit, of_unit in tests.items():
        expected = expected_seconds(unit)
        if of_slow := slow_tests.get(unit):
            slow[unit] = expected * len(of_slow) / len(of_unit)
            expected -= slow[unit]
        everyday += expected
    left = max(float(available) - everyday, _LEAST_SHARE * sum(slow.values()))
    chosen = of_the_day(slow, left, int(day))
    left_out = {item for unit in slow.keys() - chosen for item in slow_tests[unit]}
    items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workeroutput"):
        days = days_of_all(sum(slow.values()), left)
        config.workeroutput[LEFT_OUT] = {"units": sorted(slow.keys() - chosen), "tests": len(left_out), "days": days}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    last = float(os.environ[VARIABLE].split()[2])
    if time.time() > last and item.get_closest_marker("slow") is not None:
        pytest.skip(TOO_LATE)
