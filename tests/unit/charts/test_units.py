"""Display units and metric labels."""

from __future__ import annotations

import pytest

from leadline.charts.units import duration_unit, metric_label, unit_of


@pytest.mark.parametrize(
    ("metric", "largest", "name", "fig"),
    [
        ("used_bytes", 3e9, "GB", 3.0),
        ("used_bytes", 999, "B", 999),
        ("used_bytes", 1000, "kB", 1.0),
        ("rss_bytes", 1e15, "TB", 1000.0),
        ("received_bytes_per_second", 5e6, "MB/s", 5.0),
        ("utilization_percent", 50, "%", 50),
        ("temperature_celsius", 60, "°C", 60),
        ("power_watts", 400, "W", 400),
        ("process_count", 7, "count", 7),
        ("anything", 7, "", 7),
    ],
)
def test_the_unit_of_a_metric(metric: str, largest: float, name: str, fig: float) -> None:
    unit = unit_of(metric, largest)
    assert unit.name == name
    assert largest * unit.factor == pytest.approx(fig)


def test_axis_titles_include_the_unit() -> None:
    assert unit_of("utilization_percent").axis_title("CPU") == "CPU (%)"
    assert unit_of("anything").axis_title("CPU") == "CPU"


def test_metric_labels() -> None:
    assert metric_label("gpu", "memory_used_percent") == "GPU memory"
    assert metric_label("gpu", "thermal_throttle_percent") == "gpu thermal throttle"


@pytest.mark.parametrize(("longest", "name", "factor"), [(5e-5, "µs", 1e6), (0.02, "ms", 1e3), (2.0, "s", 1.0)])
def test_the_unit_of_durations(longest: float, name: str, factor: float) -> None:
    assert (duration_unit(longest).name, duration_unit(longest).factor) == (name, factor)
