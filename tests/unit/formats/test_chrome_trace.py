"""Traces in Chrome's format: the events that were written are read again, whole or as begins and ends."""

from __future__ import annotations

import contextlib
import io
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.formats.chrome_trace import EventJoiner, JoinedEvent, TraceWriter, UnmatchedEndError, encoded, entry

NAMES = st.text(min_size=1, max_size=5)
ARGS = st.dictionaries(NAMES, st.one_of(st.integers(), st.text(max_size=5), st.booleans()), max_size=2)
TREES = st.recursive(
    st.tuples(NAMES, ARGS, st.just(())),
    lambda inner: st.tuples(NAMES, ARGS, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=8,
)
"""An event: its name, facts, and the events that it encloses."""


def written(trees: list, *, is_whole: bool, has_names: bool) -> tuple[list[dict[str, Any]], list[JoinedEvent]]:
    """Return the entries of events on one thread, and the events as they should be read, in the order of their ends."""
    entries, events, clock = [entry("M", "process_name", 7, args={"name": "worker"})], [], 0.0

    def walk(tree: tuple, depth: int) -> None:
        nonlocal clock
        name, args, inner = tree
        start = clock = clock + 1.5
        if not is_whole:
            entries.append(entry("B", name, 7, tid=3, start_us=start, args=args))
        for one in inner:
            walk(one, depth + 1)
        clock += 2.25
        if is_whole:
            entries.append(entry("X", name, 7, tid=3, start_us=start, duration_us=clock - start, args=args))
        else:
            entries.append(entry("E", name if has_names else "", 7, tid=3, start_us=clock))
        events.append(JoinedEvent(name, "worker", 3, start, clock - start, args, 0 if is_whole else depth))

    for tree in trees:
        walk(tree, 0)
    return entries, events


@settings(deadline=None)
@given(st.lists(TREES, max_size=3), st.booleans(), st.booleans())
def test_what_is_written_is_read_again(trees: list, is_whole: bool, has_names: bool) -> None:
    entries, events = written(trees, is_whole=is_whole, has_names=has_names)
    file, joiner = io.StringIO(), EventJoiner()
    writer = TraceWriter(file)
    writer.put(*map(encoded, entries))
    writer.close()
    assert [event for event in map(joiner.add, json.loads(file.getvalue())) if event is not None] == events


VALUES = st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=3), st.floats(), st.lists(st.integers(), max_size=2))
ENTRIES = st.dictionaries(
    st.sampled_from(["ph", "name", "pid", "tid", "ts", "dur", "args"]),
    st.one_of(st.sampled_from([*"BEXiMC", {"name": "x"}, "process_name"]), VALUES),
)


@settings(deadline=None)
@given(st.lists(ENTRIES, max_size=8))
def test_damaged_entries_are_refused_and_times_never_negative(entries: list[dict[str, Any]]) -> None:
    joiner = EventJoiner()
    for one in entries:
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            event = joiner.add(one)
            assert event is None or not event.duration_us < 0


def test_an_end_with_a_name_ends_the_last_event_of_that_name() -> None:
    joiner = EventJoiner()
    for at, name in enumerate("aab"):
        joiner.add(entry("B", name, 1, start_us=at, args={"begun": at}))
    ended = joiner.add(entry("E", "a", 1, start_us=9, args={"ended": 9}))
    assert ended is not None
    assert (ended.name, ended.start_us, ended.args, ended.depth) == ("a", 1, {"begun": 1, "ended": 9}, 2)
    with pytest.raises(UnmatchedEndError, match="the end of 'c' without its begin"):
        joiner.add(entry("E", "c", 1, start_us=10))
    with pytest.raises(UnmatchedEndError, match="the end of '' without its begin"):
        joiner.add(entry("E", "", 2, start_us=10))


def test_what_json_lacks_is_a_text_or_refused() -> None:
    facts = {"a": math.nan, "b": [math.inf, (-math.inf, 1.5)]}
    assert json.loads(encoded({"args": facts})) == {"args": {"a": "NaN", "b": ["Infinity", ["-Infinity", 1.5]]}}
    with pytest.raises(TypeError):
        encoded({"args": {"a": object()}})
