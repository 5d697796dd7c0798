"""Functions that are traced again and again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leadline.frameworks.traces import OfSameCode, Traces


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([1] * 6, [False, False, True, True, True, True]),
        ([9] * 4, [False, False, True, True]),
        ([10] * 6, [False] * 6),
        ([1, 1, 12, 1, 1, 1], [False, False, True, False, False, True]),
    ],
)
def test_three_traces_within_few_calls_are_repeated(calls: list[int], expected: list[bool]) -> None:
    traces, found = Traces(), []
    for count in calls:
        traces.note_trace()
        traces.calls += 1
        found.append(traces.are_repeated)
        traces.calls += count - 1
    assert found == expected


def test_a_function_that_was_traced_repeatedly_is_captured_again_after_ten_calls() -> None:
    traces = Traces()
    for _ in range(4):
        traces.note_trace()
    traces.calls = 9
    assert traces.are_repeated
    traces.calls += 1
    assert not traces.are_repeated


def made() -> Callable[[], None]:
    def function() -> None: ...

    return function


def test_a_function_continues_what_was_kept_of_one_that_is_gone() -> None:
    kept: OfSameCode[str] = OfSameCode()
    first = made()
    code = first.__code__
    kept.keep(first, code, "function", "owner")
    second = made()
    assert kept.replaced_by(code, "function") is None  # both are alive: two trainings
    del first
    assert kept.replaced_by(second.__code__, "function") == "owner"
    assert kept.replaced_by(second.__code__, "another") is None
    assert kept.replaced_by(None, "function") is None
