"""The rule tree_depth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_DEPTHS: Final = "trees/Depth"
_NODES: Final = "trees/Node"


class TreeDepth(Rule, frozen=True, kw_only=True):
    """Fires when a tree of a booster is deeper than it should be.

    Why it matters:
        A tree of depth 10 has up to a thousand leaves: it can learn single samples by heart. Boosting is at its best
        with many shallow trees.
    How it decides:
        The depth of the deepest tree that was added in a round, ``> depth``. A tree of one split has depth 1. It is
        read from ``trees/Depth``; where that was not captured, from the largest node id ``n`` of a tree as
        ``floor(log2(n + 1))``, which is the depth of a tree whose levels are full, and never more than the true one.
    Not a number:
        Depths and ids are whole numbers; one that is NaN or infinite is not judged.
    Blind spots:
        By node ids alone a lopsided tree (``grow_policy`` ``lossguide``) looks shallower than it is. Only rounds that
        were captured are judged. What is too deep depends on the number of samples: 4 suits small sets.
    Args:
        depth: Deepest tree that is no finding, >= 1.
    Source:
        SageMaker developer guide, "TreeDepth". It takes the base 2 logarithm of the largest node id, without rounding:
        a full tree of depth 4 (ids 0 to 30) would fire at 4.
    """

    depth: Annotated[int, msgspec.Meta(ge=1)] = 4

    def needs(self) -> Needs:
        return Needs((TensorNeed("trees", rf"({_DEPTHS}|{_NODES})$", statistics=("max",)),))

    def evaluate(self, window: Window) -> Verdict:
        readings = [each for each in window.readings("max") if math.isfinite(each.value) and each.value >= 0]
        exact = {each.worker for each in readings if each.tensor.endswith(_DEPTHS)}
        judged = [each for each in readings if (each.worker in exact) == each.tensor.endswith(_DEPTHS)]
        if not judged:
            return Undecided("no tree was captured at this step")
        worst = max(judged, key=_depth)
        if _depth(worst) > self.depth:
            return self._fired(worst)
        return Undecided("part of the trees at this step was lost") if window.is_thinned else Clear()

    def _fired(self, reading: TensorReading) -> Fired:
        depth, is_exact = _depth(reading), reading.tensor.endswith(_DEPTHS)
        return Fired(
            f"a tree of this round has a depth of {'' if is_exact else 'at least '}{depth}, more than {self.depth}",
            tensors=(reading.tensor,),
            evidence={"depth": depth, "threshold": self.depth, "is_exact": is_exact, "read_from": reading.tensor},
            suggestion=f"max_depth={self.depth}, or a larger min_child_weight or gamma; "
            "usually max_depth was raised (or left at 6) for a set that is small for it",
            worker=reading.worker,
        )


def _depth(reading: TensorReading) -> int:
    return int(reading.value) if reading.tensor.endswith(_DEPTHS) else math.floor(math.log2(reading.value + 1))
