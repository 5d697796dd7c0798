"""Units: bytes in powers of 1,024, what a metric's name ends with, and words for it."""

from __future__ import annotations

import pytest

from leadline.figures.units import seconds_unit, unit_of, words_of


@pytest.mark.parametrize(
    ("metric", "largest", "name", "shown"),
    [
        ("used_bytes", 3 * 2**30, "GiB", 3.0),
        ("used_bytes", 1023, "B", 1023),
        ("used_bytes", 1024, "KiB", 1.0),
        ("rss_bytes", 2**50, "TiB", 1024.0),
        ("received_bytes_per_second", 5 * 2**20, "MiB/s", 5.0),
        ("utilization_percent", 50, "%", 50),
        ("temperature_celsius", 60, "°C", 60),
        ("power_watts", 400, "W", 400),
        ("process_count", 7, "count", 7),
        ("anything", 7, "", 7),
    ],
)
def test_the_unit_of_a_metric(metric: str, largest: float, name: str, shown: float) -> None:
    unit = unit_of(metric, largest)
    assert unit.name == name
    assert largest * unit.factor == pytest.approx(shown)


def test_titles_name_the_unit_where_there_is_one() -> None:
    assert unit_of("utilization_percent").titled("CPU") == "CPU (%)"
    assert unit_of("anything").titled("CPU") == "CPU"


def test_words() -> None:
    assert words_of("gpu", "memory_used_percent") == "GPU memory"
    assert words_of("gpu", "thermal_throttle_percent") == "gpu thermal throttle"


@pytest.mark.parametrize(("longest", "name", "factor"), [(5e-5, "µs", 1e6), (0.02, "ms", 1e3), (2.0, "s", 1.0)])
def test_the_unit_of_durations(longest: float, name: str, factor: float) -> None:
    assert (seconds_unit(longest).name, seconds_unit(longest).factor) == (name, factor)
