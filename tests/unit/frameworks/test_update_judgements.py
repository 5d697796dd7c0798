"""Updates are judged by the loss along them, and by their direction."""

from __future__ import annotations

import pytest

from leadline.frameworks.check.updates import MULTIPLES, Update, judge_update


def along(slope: float, curvature: float) -> Update:
    """Return an update of a loss of 1 that is a parabola along it."""
    losses = {multiple: 1 + slope * multiple + curvature * multiple**2 for multiple in MULTIPLES}
    return Update(losses, lambda: 0.0, 0.1, is_adaptive=False, is_warming_up=False)


@pytest.mark.parametrize(
    ("slope", "curvature", "cosine", "is_found"),
    [
        (-0.5, 10.0, -0.9, True),  # the right direction, far too long
        (-0.5, 1000.0, -0.9, True),  # so long that no multiple that is tried lowers the loss
        (0.5, 10.0, 0.1, False),  # momentum of other batches
        (-0.5, 0.2, -0.9, False),
    ],
)
def test_an_update_that_raises_the_loss_is_too_long_unless_it_goes_up(
    slope: float, curvature: float, cosine: float, *, is_found: bool
) -> None:
    tested = judge_update(along(slope, curvature), {}, cosine=cosine)
    assert (tested.outcome == "failed") is is_found


def test_an_update_that_goes_up_is_found_if_it_does_so_with_momentum_of_its_batch() -> None:
    update = along(0.5, 10.0)._replace(climb=lambda: 0.9)
    assert judge_update(update, {}, cosine=0.9).outcome == "failed"
    assert judge_update(update, {}, cosine=0.9, is_shared=True).outcome == "passed"
