"""The parts of a report, independent of their rendering."""

from __future__ import annotations

import math

import pytest

from leadline.reports.section import Column, empty, format_cell, table_of


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (12345, "12,345"),
        (0.123456, "0.123"),
        (3.0, "3"),
        (12345.6, "12,346"),
        (1e-9, "1e-9"),
        (1.5e20, "1.5e20"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        ("<b>", "<b>"),
    ],
)
def test_format_cell(cell: object, text: str) -> None:
    assert format_cell(cell) == text  # type: ignore[arg-type]


def test_a_table_has_the_given_columns_and_counts_omitted_rows() -> None:
    rows = [{"a": index, "b": {"x": 1.0, "y": None}, "c": 0} for index in range(7)]
    table = table_of(rows, {"b": "B", "a": Column("A", "ms")}, title="T", limit=3)
    assert [column.title for column in table.columns] == ["B", "A"]
    assert table.columns[1].unit == "ms"
    assert table.rows == (("x 1, y –", 0), ("x 1, y –", 1), ("x 1, y –", 2))
    assert table.left_out == 4


def test_missing_values_are_none() -> None:
    assert table_of([{}], {"a": "A"}).rows == ((None,),)


def test_lists_in_a_row_are_joined() -> None:
    assert table_of([{"a": ["x", 2]}], {"a": "A"}).rows == (("x, 2",),)


def test_an_empty_section_has_a_reason() -> None:
    assert empty("gpu", "GPU", "no GPU on this node").why_empty == "no GPU on this node"
