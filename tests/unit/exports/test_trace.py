"""Slices of a track nest or follow each other, however they come, and every number is one."""

from __future__ import annotations

import io
import json
import math

import numpy as np
from chrome_trace import check_trace, tracks
from hypothesis import given
from hypothesis import strategies as st

from leadline.exports.machine import downsample
from leadline.exports.trace import JITTER_NS, Trace, TraceSpan

MS = 1_000_000


def written(*slices: TraceSpan) -> dict[str, list[tuple[float, float]]]:
    """Begin and duration, in ms, by track."""
    file = io.StringIO()
    trace = Trace(file, origin_ns=0)
    trace.put(trace.process("worker"), "track", slices)
    trace.close({})
    found = json.loads(file.getvalue())
    check_trace(found)
    return {
        track: [(each["ts"] / 1000, each["dur"] / 1000) for each in events]
        for (_, track), events in tracks(found).items()
    }


def test_what_lies_within_and_what_follows_share_a_track() -> None:
    assert written(TraceSpan("a", 0, 4 * MS), TraceSpan("b", MS, 3 * MS), TraceSpan("c", 4 * MS, MS)) == {
        "track": [(0, 4), (1, 3), (4, 1)]
    }


def test_what_overlaps_has_a_track_of_its_own() -> None:
    assert written(TraceSpan("a", 0, 4 * MS), TraceSpan("b", 3 * MS, 3 * MS), TraceSpan("c", 5 * MS, 3 * MS)) == {
        "track": [(0, 4), (5, 3)],
        "track (2)": [(3, 3)],
    }


def test_what_two_readings_of_a_clock_differ_by_is_cut_off() -> None:
    late = MS - JITTER_NS // 2
    assert written(TraceSpan("a", 0, MS), TraceSpan("b", late, MS)) == {"track": [(0, 1), (1, 0.975)]}


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 900)), max_size=40))
def test_any_slices_nest_on_their_tracks_and_none_is_lost(spans: list[tuple[int, int]]) -> None:
    slices = [TraceSpan("x", start * 1000, length * 1000) for start, length in spans]
    slices.sort(key=lambda each: (each.start_ns, -each.duration_ns))
    assert sum(map(len, written(*slices).values())) == len(slices)


def test_a_number_that_json_has_no_word_for_is_a_text() -> None:
    file = io.StringIO()
    trace = Trace(file, origin_ns=0)
    trace.put(trace.process("worker"), "track", [TraceSpan("x", 0, 1, {"loss": math.nan})])
    trace.close({})
    (event,) = [each for each in json.loads(file.getvalue())["traceEvents"] if each["ph"] == "X"]
    assert event["args"] == {"loss": "NaN"}


def test_thinning_keeps_each_intervals_least_and_greatest() -> None:
    times = np.arange(1000) * 10
    values = np.sin(np.arange(1000))
    values[617] = 50.0
    places = downsample(times, values, most=100)
    assert len(places) <= 100
    assert 617 in places
    for start in range(0, 1000, 20):
        inside = values[(times >= start * 10) & (times < (start + 20) * 10)]
        kept = values[[place for place in places if start <= place < start + 20]]
        assert (kept.min(), kept.max()) == (inside.min(), inside.max())


def test_few_samples_are_all_written() -> None:
    assert downsample(np.arange(7), np.ones(7), most=8).tolist() == list(range(7))
