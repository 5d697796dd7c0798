"""Views that mix positions, by the shapes before and after them."""

from __future__ import annotations

import pytest

from leadline.frameworks.torch.check.split_heads import mixes_positions


@pytest.mark.parametrize(
    ("joined", "split"), [((2, 12, 32), (2, 4, 12, 8)), ((2, 12, 32), (8, 12, 8)), ((5, 4, 6), (5, 3, 4, 2))]
)
def test_positions_cut_in_pieces_are_mixed(joined: tuple[int, ...], split: tuple[int, ...]) -> None:
    assert mixes_positions(joined, split)


@pytest.mark.parametrize(
    ("joined", "split"),
    [
        ((2, 12, 32), (2, 12, 4, 8)),  # heads behind the positions
        ((2, 4, 32), (2, 4, 4, 8)),  # as many heads as positions: it may be either
        ((2, 12, 32), (2, 1, 12, 32)),  # one head
        ((2, 1, 32), (2, 4, 1, 8)),  # one position
        ((2, 12, 4), (2, 4, 12, 1)),  # elements that are heads
        ((12, 2, 32), (12, 8, 8)),  # positions first, and samples and heads in one axis
        ((2, 32, 12), (2, 4, 8, 12)),  # channels before positions
        ((2, 32, 12), (8, 8, 12)),
        ((2, 12, 32), (24, 32)),
        ((0, 12, 32), (0, 4, 12, 8)),
    ],
)
def test_other_views_are_not(joined: tuple[int, ...], split: tuple[int, ...]) -> None:
    assert not mixes_positions(joined, split)
