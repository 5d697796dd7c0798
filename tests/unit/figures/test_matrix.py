"""A matrix is drawn cell by cell, and says what it leaves out."""

from __future__ import annotations

import numpy as np

from leadline.figures.matrix import matrix


def test_cells_stand_where_they_are_and_zero_is_in_the_middle_of_the_colours() -> None:
    shown = matrix(np.array([[1.0, -4.0, np.nan], [0.0, 2.0, np.inf]]))
    (trace,) = shown.data
    assert np.array_equal(trace.z, np.array([[1, -4, np.nan], [0, 2, np.nan]], np.float32), equal_nan=True)
    assert (trace.zmin, trace.zmax) == (-4.0, 4.0)
    assert shown.layout.yaxis.autorange == "reversed"


def test_of_a_large_one_every_so_many_cells_are_drawn_at_their_places() -> None:
    values = np.arange(1000.0 * 50).reshape(1000, 50)
    shown = matrix(values)
    (trace,) = shown.data
    assert trace.y.tolist() == list(range(0, 1000, 3))
    assert trace.x.tolist() == list(range(50))
    assert np.array_equal(trace.z, values[::3].astype(np.float32))
    assert "one row of 3" in shown.layout.annotations[0].text


def test_without_values_it_says_so() -> None:
    for given in (None, np.zeros((0, 3))):
        assert matrix(given).layout.meta["empty"] == "there is no matrix to draw"
    assert matrix(np.full((2, 2), np.nan)).data[0].zmax == 1.0
