"""The trace writer: nesting of slices, and downsampling of counters."""

from __future__ import annotations

import io
import json
import math

import numpy as np
from chrome_trace import check_trace, tracks
from hypothesis import given
from hypothesis import strategies as st

from leadline.exports.perfetto import downsample
from leadline.exports.trace import JITTER_NS, Trace, TraceSpan

MS = 1_000_000


def written(*slices: TraceSpan) -> dict[str, list[tuple[float, float]]]:
    """Return start and duration in ms by track."""
    file = io.StringIO()
    trace = Trace(file, origin_ns=0)
    trace.put(trace.process("worker"), "track", slices)
    trace.close({})
    trace_json = json.loads(file.getvalue())
    check_trace(trace_json)
    return {
        track: [(event["ts"] / 1000, event["dur"] / 1000) for event in events]
        for (_, track), events in tracks(trace_json).items()
    }


def test_nested_and_consecutive_slices_share_a_track() -> None:
    assert written(TraceSpan("a", 0, 4 * MS), TraceSpan("b", MS, 3 * MS), TraceSpan("c", 4 * MS, MS)) == {
        "track": [(0, 4), (1, 3), (4, 1)]
    }


def test_overlapping_slices_have_separate_tracks() -> None:
    assert written(TraceSpan("a", 0, 4 * MS), TraceSpan("b", 3 * MS, 3 * MS), TraceSpan("c", 5 * MS, 3 * MS)) == {
        "track": [(0, 4), (5, 3)],
        "track (2)": [(3, 3)],
    }


def test_overlaps_within_the_clock_jitter_are_removed() -> None:
    late = MS - JITTER_NS // 2
    assert written(TraceSpan("a", 0, MS), TraceSpan("b", late, MS)) == {"track": [(0, 1), (1, 0.975)]}


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 900)), max_size=40))
def test_any_slices_nest_on_their_tracks_and_none_is_lost(spans: list[tuple[int, int]]) -> None:
    slices = [TraceSpan("x", start * 1000, length * 1000) for start, length in spans]
    slices.sort(key=lambda slice_: (slice_.start_ns, -slice_.duration_ns))
    assert sum(map(len, written(*slices).values())) == len(slices)


def test_non_finite_numbers_are_strings() -> None:
    file = io.StringIO()
    trace = Trace(file, origin_ns=0)
    trace.put(trace.process("worker"), "track", [TraceSpan("x", 0, 1, {"loss": math.nan})])
    trace.close({})
    (event,) = [event for event in json.loads(file.getvalue())["traceEvents"] if event["ph"] == "X"]
    assert event["args"] == {"loss": "NaN"}


def test_downsampling_keeps_minimum_and_maximum_of_each_interval() -> None:
    times = np.arange(1000) * 10
    values = np.sin(np.arange(1000))
    values[617] = 50.0
    indices = downsample(times, values, max_samples=100)
    assert len(indices) <= 100
    assert 617 in indices
    for start in range(0, 1000, 20):
        inside = values[(times >= start * 10) & (times < (start + 20) * 10)]
        kept = values[[index for index in indices if start <= index < start + 20]]
        assert (kept.min(), kept.max()) == (inside.min(), inside.max())


def test_few_samples_are_all_written() -> None:
    assert downsample(np.arange(7), np.ones(7), max_samples=8).tolist() == list(range(7))
