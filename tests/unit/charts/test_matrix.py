"""Matrix images and their subsampling."""

from __future__ import annotations

import numpy as np

from leadline.charts.values import matrix


def test_cells_keep_their_positions_and_zero_is_mid_scale() -> None:
    fig = matrix(np.array([[1.0, -4.0, np.nan], [0.0, 2.0, np.inf]]))
    (trace,) = fig.data
    assert np.array_equal(trace.z, np.array([[1, -4, np.nan], [0, 2, np.nan]], np.float32), equal_nan=True)
    assert (trace.zmin, trace.zmax) == (-4.0, 4.0)
    assert fig.layout.yaxis.autorange == "reversed"


def test_large_matrices_are_subsampled_at_their_positions() -> None:
    values = np.arange(1000.0 * 50).reshape(1000, 50)
    fig = matrix(values)
    (trace,) = fig.data
    assert trace.y.tolist() == list(range(0, 1000, 3))
    assert trace.x.tolist() == list(range(50))
    assert np.array_equal(trace.z, values[::3].astype(np.float32))
    assert "1 in 3 rows" in fig.layout.annotations[0].text


def test_a_matrix_without_values_shows_a_message() -> None:
    for given in (None, np.zeros((0, 3))):
        assert matrix(given).layout.meta["empty"] == "there is no matrix to draw"
    assert matrix(np.full((2, 2), np.nan)).data[0].zmax == 1.0
