"""Robustness of figures: non-finite, huge or equal values, single rows, arbitrary names."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from leadline.analysis.usage import distributions
from leadline.charts import phases, scalars, steps, usage, values
from leadline.records.names import PARTS
from leadline.testing.runs import START_NS

NUMBERS = some.one_of(some.floats(), some.floats(-1e3, 1e3), some.just(0.0), some.just(1e300), some.just(5e-324))
NAMES = some.one_of(some.text(max_size=12), some.sampled_from(["total", "core0", "core10", "gpu0"]))
MODES = some.sampled_from(["train", "eval", "predict"])
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(fig) -> None:
    """Assert that a figure is JSON of limited size."""
    text = fig.to_json()
    json.loads(text)
    assert len(text) < 500_000


@FEW
@given(
    some.lists(
        some.tuples(NAMES, some.sampled_from(["cpu", "gpu"]), NAMES, some.integers(0, 90), NUMBERS), max_size=25
    ),
    some.sampled_from(["utilization_percent", "used_bytes", "received_bytes_per_second", "x"]),
)
def test_system_figures(rows: list[tuple[str, str, str, int, float]], metric: str) -> None:
    columns = {name: [row[at] for row in rows] for at, name in enumerate(("node", "kind", "device"))}
    table = pa.table(
        {
            **{name: pa.array(each, pa.string()) for name, each in columns.items()},
            "metric": pa.array([metric] * len(rows), pa.string()),
            "time_ns": pa.array([START_NS + row[3] * 10**9 for row in rows], pa.int64()),
            **{name: pa.array([row[4] for row in rows], pa.float64()) for name in ("mean", "min", "max")},
            "samples": pa.array([1] * len(rows), pa.int64()),
        }
    )
    for fig in (
        usage.usage(table),
        usage.usage(table, is_mean=True),
        usage.histogram(table),
        usage.heat_map(table),
        usage.boxes(distributions(table)),
    ):
        check(fig)


@FEW
@given(some.lists(some.tuples(NAMES, MODES, some.integers(0, 10**12), some.integers(0, 10**13)), max_size=20))
def test_steps(rows: list[tuple[str, str, int, int]]) -> None:
    starts = [START_NS + at * 10**9 for at in range(len(rows))]
    table = pa.table(
        {
            "worker": pa.array([row[0] for row in rows], pa.string()),
            "mode": pa.array([row[1] for row in rows], pa.string()),
            **{name: pa.array([row[2] for row in rows], pa.int64()) for name in ("step", "end_step", "longest_step")},
            "start_ns": pa.array(starts, pa.int64()),
            "end_ns": pa.array([start + row[3] for start, row in zip(starts, rows, strict=True)], pa.int64()),
            "count": pa.array([row[3] % 3 for row in rows], pa.int64()),
            **{
                f"{name}_ns": pa.array([row[3] for row in rows], pa.int64())
                for name in ("duration", "longest", "shortest", *PARTS)
            },
        }
    )
    for fig in (steps.durations(table), steps.timeline(table), phases.over_time(table), phases.progress(table)):
        check(fig)


@FEW
@given(some.lists(some.tuples(NAMES, MODES, NAMES, some.integers(0, 10**9), NUMBERS), max_size=20), some.booleans())
def test_numbers_over_steps(rows: list[tuple[str, str, str, int, float]], is_log: bool) -> None:
    table = pa.table(
        {
            **{
                name: pa.array([row[at] for row in rows], pa.string())
                for at, name in enumerate(("name", "mode", "worker"))
            },
            **{name: pa.array([row[3] for row in rows], pa.int64()) for name in ("step", "mode_step", "time_ns")},
            **{name: pa.array([row[4] for row in rows], pa.float64()) for name in ("value", "min", "max")},
            "nonfinite": pa.array([int(not np.isfinite(row[4])) for row in rows], pa.int64()),
            "samples": pa.array([2] * len(rows), pa.int64()),
        }
    )
    check(scalars.scalars(table, is_log=is_log))
    check(scalars.compare({"one": table, "two": table}))


@FEW
@given(
    some.lists(some.lists(NUMBERS, min_size=3, max_size=3), max_size=6), some.sampled_from(["abs_mean", "zero_ratio"])
)
def test_layers(rows: list[list[float]], statistic: str) -> None:
    given_values = np.array(rows, np.float64).reshape(len(rows), 3)
    found = {"tensors": [f"t{at}" for at in range(len(rows))], "steps": [0, 1, 2], "values": given_values}
    check(values.layers(found, statistic=statistic))


@FEW
@given(some.lists(NUMBERS, max_size=30))
def test_values_at_a_step(numbers: list[float]) -> None:
    check(values.at_step(np.array(numbers), tensor="w", step=1))


@pytest.mark.parametrize("spread", [{"edges": [1.0, 1.0], "counts": [5]}, {"edges": [0.0, 1.0], "counts": [0]}])
def test_histograms_without_width_or_steps(spread: dict[str, list[float]]) -> None:
    check(steps.histogram({"rank0-1/train": {**spread, "p50": 1.0, "p99": 1.0}}))
