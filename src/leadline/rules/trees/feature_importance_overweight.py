"""The rule feature_importance_overweight."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import check_selection

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window

_KIND: Final = re.compile(r"(?:^|/)feature_importance/([^/]+)/(.+)$", re.DOTALL)
_MOST_NAMED: Final = 5


class FeatureImportanceOverweight(Rule, frozen=True, kw_only=True):
    """Fires when a few features of a booster have almost all of the importance.

    Why it matters:
        A model that leans on one or two features has often been given the answer: an identifier, a column that is
        filled in after the fact, the label in other words. It is excellent in validation and worthless in use.
    How it decides:
        Of each kind of importance that ``tensor_regex`` selects, the sum of the ``nfeatures`` largest over the sum of
        all is taken; above ``threshold`` it fires. Importances are those of the whole model so far, so they settle
        with the rounds: none is judged before ``start_step``.
    Not a number:
        An importance that is NaN, infinite or negative counts as 0; where nothing is left, undecided.
    Blind spots:
        Importance by ``weight`` counts splits: a leaking feature of two values is split once a tree and stays small
        there, while nearly all of the gain is its own; ask for ``.*feature_importance/gain`` as well, with
        ``nfeatures`` 1, since most gain is that of the first splits, and so of few features. A model with no
        more than ``nfeatures`` features always fires: lower ``nfeatures``. Two features that say the same share
        what they are worth. Some problems do hang on one feature.
    Args:
        threshold: Largest share of the importance that is no finding, >= 0 and <= 1.
        nfeatures: How many of the largest are added, >= 1.
        tensor_regex: Regular expressions (``re.search``) for the kinds of importance that are judged, each by itself.
        start_step: The global step from which on it is judged, >= 0.
    Source:
        SageMaker developer guide, "FeatureImportanceOverweight"; ``start_step`` is ours: the first trees are few.
    """

    threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.8
    nfeatures: Annotated[int, msgspec.Meta(ge=1)] = 3
    tensor_regex: tuple[str, ...] = (".*feature_importance/weight",)
    start_step: Annotated[int, msgspec.Meta(ge=0)] = 10

    def check(self) -> None:
        check_selection(self.name, None, self.tensor_regex, is_required=True)

    def needs(self) -> Needs:
        return Needs(tuple(TensorNeed("feature_importance", each, statistics=("value",)) for each in self.tensor_regex))

    def evaluate(self, window: Window) -> Verdict:
        if window.step < self.start_step:
            return Undecided(f"importances are judged from step {self.start_step:,} on")
        kinds = _by_kind(window.readings("value"))
        shares = {key: self._share(each) for key, each in kinds.items()}
        known = {key: share for key, share in shares.items() if not math.isnan(share)}
        if not known:
            return Undecided("no feature had any importance at this step")
        worst = max(known, key=lambda each: known[each])
        if known[worst] > self.threshold:
            return self._fired(worst[1], known[worst], kinds[worst])
        return Undecided("part of the importances at this step was lost") if window.is_thinned else Clear()

    def _share(self, features: list[TensorReading]) -> float:
        """The share of the largest; NaN where none has any."""
        total = sum(map(_importance, features))
        return sum(map(_importance, self._largest(features))) / total if total > 0 else math.nan

    def _largest(self, features: list[TensorReading]) -> list[TensorReading]:
        return sorted(features, key=_importance, reverse=True)[: self.nfeatures]

    def _fired(self, kind: str, share: float, features: list[TensorReading]) -> Fired:
        total = sum(map(_importance, features))
        largest = [each for each in self._largest(features) if _importance(each) > 0]
        named = ", ".join(f"{_feature(each)} {_importance(each) / total:.0%}" for each in largest[:_MOST_NAMED])
        verb = "has" if len(largest) == 1 else "have"
        what = f"{len(largest)} of {len(features):,} features {verb}" if len(features) > 1 else "the only feature has"
        return Fired(
            f"{what} {share:.0%} of the importance by {kind}: {named}",
            tensors=tuple(each.tensor for each in largest),
            evidence={
                "kind": kind,
                "share": share,
                "threshold": self.threshold,
                "nfeatures": self.nfeatures,
                "features": len(features),
                "largest": {_feature(each): _importance(each) / total for each in largest},
            },
            suggestion=f"a training without {_feature(largest[0])}, to see what is left, or colsample_bytree below 1; "
            "usually the feature is only known once the label is, or it names the sample",
            worker=features[0].worker,
        )


def _by_kind(readings: Iterable[TensorReading]) -> dict[tuple[str, str], list[TensorReading]]:
    """Readings by worker and kind of importance: ``weight``, ``gain`` …"""
    found: dict[tuple[str, str], list[TensorReading]] = {}
    for each in readings:
        match = _KIND.search(each.tensor)
        found.setdefault((each.worker, match[1] if match else each.tensor), []).append(each)
    return found


def _feature(reading: TensorReading) -> str:
    match = _KIND.search(reading.tensor)
    return match[2] if match else reading.tensor


def _importance(reading: TensorReading) -> float:
    return reading.value if math.isfinite(reading.value) and reading.value > 0 else 0.0
