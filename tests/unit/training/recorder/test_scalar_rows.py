"""Rows of scalars: equal sets of names share a layout, and others are not remembered without end."""

from __future__ import annotations

from leadline.training.recorder import scalars
from leadline.training.recorder.scalars import Scalar, ScalarRows


def layout_of(rows: ScalarRows, name: str) -> object:
    layout, values = rows.row({name: Scalar("scalars", (1.0,))}, lambda numbers: b"")
    assert len(values) == 8
    return layout


def test_equal_names_share_a_layout() -> None:
    rows = ScalarRows()
    assert layout_of(rows, "a") is layout_of(rows, "a")
    assert layout_of(rows, "a") is not layout_of(rows, "b")


def test_names_that_never_recur_are_forgotten() -> None:
    rows = ScalarRows()
    for number in range(3 * scalars._MAX_LAYOUTS):
        layout_of(rows, f"reward_{number}")
    assert len(rows._layouts) <= scalars._MAX_LAYOUTS
    assert layout_of(rows, "a") is layout_of(rows, "a")
