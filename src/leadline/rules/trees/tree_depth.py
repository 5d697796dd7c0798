"""The rule tree_depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final

from leadline.rules import Advice, Fired, Needs, TensorNeed, TensorReading, TensorRule, Window
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import fired

_DEPTHS: Final = "trees/Depth"
_NODES: Final = "trees/Node"
_ADVICE: Final = Advice(
    "max_depth={depth}, or a larger min_child_weight or {min_gain}; usually max_depth was raised (or left at 6) for a "
    "small data set",
    "depth",
)


class TreeDepth(TensorRule[TensorReading], frozen=True, kw_only=True):
    """Fires when a tree of a booster is too deep.

    Why it matters:
        A tree of depth 10 has up to a thousand leaves and can memorize single samples. Boosting works best with
        many shallow trees.
    How it decides:
        Fires if the depth of the deepest tree added in a round is ``> depth``. A tree with one split has depth 1.
        The depth is read from ``trees/Depth``; if that was not captured, it is ``floor(log2(n + 1))`` of the
        largest node id ``n`` of a tree, which is exact for a tree with full levels and otherwise a lower bound.
    Not a number:
        Depths and ids are whole numbers; a NaN or infinite value is not evaluated.
    Blind spots:
        From node ids alone an unbalanced tree (``grow_policy`` ``lossguide``) looks shallower than it is. Only
        captured rounds are evaluated. The right limit depends on the number of samples: 4 suits small data sets.
    Args:
        depth: Deepest tree that is not a finding, >= 1.
    Source:
        SageMaker developer guide, "TreeDepth". It takes the base 2 logarithm of the largest node id, without
        rounding: a full tree of depth 4 (ids 0 to 30) would fire at 4.
    """

    data: ClassVar[str] = "trees"
    untested: ClassVar[str] = "no tree was captured at this step"

    depth: PositiveInt = 4

    def needs(self) -> Needs:
        return Needs((TensorNeed("trees", rf"({_DEPTHS}|{_NODES})$", statistics=("max",)),))

    def find(self, window: Window) -> list[TensorReading] | None:
        readings = [
            reading for reading in window.readings("max") if math.isfinite(reading.value) and reading.value >= 0
        ]
        exact = {reading.worker for reading in readings if reading.tensor.endswith(_DEPTHS)}
        judged = [reading for reading in readings if (reading.worker in exact) == reading.tensor.endswith(_DEPTHS)]
        if not judged:
            return None
        return [reading for reading in judged if _depth(reading) > self.depth]

    def finding(self, bad: Sequence[TensorReading]) -> Fired:
        reading = max(bad, key=_depth)
        depth, is_exact = _depth(reading), reading.tensor.endswith(_DEPTHS)
        return fired(
            f"a tree of this round has a depth of {'' if is_exact else 'at least '}{depth}, more than {self.depth}",
            reading,
            advice=_ADVICE.given(depth=self.depth),
            evidence={"depth": depth, "threshold": self.depth, "is_exact": is_exact, "read_from": reading.tensor},
        )


def _depth(reading: TensorReading) -> int:
    return int(reading.value) if reading.tensor.endswith(_DEPTHS) else math.floor(math.log2(reading.value + 1))
