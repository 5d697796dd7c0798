"""Sparklines as SVG, with gaps."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as some

from leadline.figures.sparkline import sparkline


def points(svg: str) -> list[list[tuple[float, float]]]:
    lines = [each.attrib["points"] for each in ElementTree.fromstring(svg)]
    return [[tuple(map(float, pair.split(","))) for pair in line.split()] for line in lines]  # type: ignore[misc]


def test_a_line_goes_from_left_to_right_and_up_with_its_values() -> None:
    (line,) = points(sparkline([0.0, 1.0, 0.5], width=104, height=24))
    assert line == [(2.0, 22.0), (52.0, 2.0), (102.0, 12.0)]


def test_nonfinite_values_are_gaps() -> None:
    lines = points(sparkline([1, 2, math.nan, 3, None, math.inf, 4]))
    assert [len(each) for each in lines] == [2, 2, 2]  # a single point is a dot
    assert lines[1][0] == lines[1][1]


@pytest.mark.parametrize("values", [[], [1.0], [math.nan, 1.0], [None, None]])
def test_too_few_numbers_are_no_line(values: list[float | None]) -> None:
    assert sparkline(values) == ""


def test_a_constant_is_drawn_in_the_middle() -> None:
    (line,) = points(sparkline([5.0, 5.0], height=28))
    assert {y for _, y in line} == {14.0}


@given(some.lists(some.one_of(some.none(), some.floats(), some.integers(-(10**9), 10**9)), max_size=50))
def test_the_line_stays_within_its_bounds(values: list[float | None]) -> None:
    svg = sparkline(values, width=100, height=20)
    assert re.fullmatch(r'[-\w<>="/:,. ]*', svg)
    for x, y in (point for line in points(svg) for point in line) if svg else ():
        assert 0 <= x <= 100
        assert 0 <= y <= 20
