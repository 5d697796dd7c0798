"""What a report is made of, before anything draws it."""

from __future__ import annotations

import math

import pytest

from leadline.reports.section import Column, empty, format_cell, table_of


@pytest.mark.parametrize(
    ("cell", "spoken"),
    [
        (None, "–"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (12345, "12,345"),
        (0.123456, "0.1235"),
        (3.0, "3"),
        (12345.6, "12,346"),
        (1e-9, "1e-09"),
        (1.5e20, "1.5e+20"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        ("<b>", "<b>"),
    ],
)
def test_a_cell_is_spoken_in_four_digits(cell: object, spoken: str) -> None:
    assert format_cell(cell) == spoken  # type: ignore[arg-type]


def test_a_table_holds_the_asked_columns_and_counts_what_it_leaves_out() -> None:
    rows = [{"a": index, "b": {"x": 1.0, "y": None}, "c": 0} for index in range(7)]
    table = table_of(rows, {"b": "B", "a": Column("A", "ms")}, title="T", most=3)
    assert [each.title for each in table.columns] == ["B", "A"]
    assert table.columns[1].unit == "ms"
    assert table.rows == (("x 1, y –", 0), ("x 1, y –", 1), ("x 1, y –", 2))
    assert table.left_out == 4


def test_what_a_row_lacks_is_absent_and_never_zero() -> None:
    assert table_of([{}], {"a": "A"}).rows == ((None,),)


def test_lists_in_a_row_become_words() -> None:
    assert table_of([{"a": ["x", 2]}], {"a": "A"}).rows == (("x, 2",),)


def test_an_empty_section_says_why() -> None:
    assert empty("gpu", "GPU", "no GPU on this node").why_empty == "no GPU on this node"
