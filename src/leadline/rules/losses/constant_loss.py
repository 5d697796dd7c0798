"""A training loss that stays the same, although the weights move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leadline.rules.losses.competing_losses import EndsOfLoss

_MIN_VALUES: Final = 30
_SETTLED: Final = 1e-6
"""A loss below it may be that of predictions without any error."""


def remark(losses: Mapping[str, EndsOfLoss]) -> str:
    """Return the remark on the only loss of the last steps of a worker whose weights have moved; empty: none."""
    name, loss = max(losses.items(), key=lambda entry: entry[1].step)
    is_one_of_several = any(other.step >= loss.since for other in losses.values() if other is not loss)
    if is_one_of_several or loss.equal < _MIN_VALUES or abs(loss.last[-1]) < _SETTLED:
        return ""
    return (
        f"{name} was {loss.last[-1]:.7g} at the last {loss.equal:,} captured steps, to the bit, though the weights "
        "move: it does not depend on what the model computes, as if that were compared with itself (a reference model "
        "that is the trained one, and no copy)"
    )
