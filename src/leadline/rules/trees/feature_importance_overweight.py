"""The rule feature_importance_overweight."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from leadline.records.formatting import share as percent
from leadline.rules import Advice, Fired, Needs, Rule, TensorNeed, TensorReading, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeInt, PositiveInt, Share
from leadline.rules.messages import clear_if_complete, fired
from leadline.rules.selection import check_selection

_KIND: Final = re.compile(r"(?:^|/)feature_importance/([^/]+)/(.+)$", re.DOTALL)
_MAX_NAMED: Final = 5
_ADVICE: Final = Advice(
    "a training without {feature} for comparison, or colsample_bytree below 1; usually the feature is known only "
    "after the label, or it identifies the sample",
    "feature",
)


class FeatureImportanceOverweight(Rule, frozen=True, kw_only=True):
    """Fires when a few features of a booster have almost all of the importance.

    Why it matters:
        A model that relies on one or two features often has access to the answer: an identifier, a column that is
        filled in after the fact, a restatement of the label. It is excellent in validation and useless in practice.
    How it decides:
        For each kind of importance that ``tensor_regex`` selects, it fires if the sum of the ``nfeatures`` largest
        importances divided by the sum of all is above ``threshold``. Importances are those of the whole model so
        far, so they settle over the rounds; none is evaluated before ``start_step``.
    Not a number:
        An importance that is NaN, infinite or negative counts as 0; undecided if all are 0.
    Blind spots:
        The ``weight`` importance counts splits: a leaking feature with two values is split once per tree and stays
        small, although it provides nearly all of the gain. Add ``.*feature_importance/gain`` with ``nfeatures`` 1,
        since most of the gain comes from the first splits, and so from few features. A model with at most
        ``nfeatures`` features always fires: lower ``nfeatures``. Two redundant features share their importance.
        Some problems really depend on one feature.
    Args:
        threshold: Largest share of the importance that is not a finding, >= 0 and <= 1.
        nfeatures: Number of largest importances in the sum, >= 1.
        tensor_regex: Regular expressions (``re.search``) for the kinds of importance, each evaluated separately.
        start_step: The train step from which importances are evaluated, >= 0.
    Source:
        SageMaker developer guide, "FeatureImportanceOverweight"; ``start_step`` is ours, since the first trees are
        too few.
    """

    threshold: Share = 0.8
    nfeatures: PositiveInt = 3
    tensor_regex: tuple[str, ...] = (".*feature_importance/weight",)
    start_step: NonNegativeInt = 10

    def check(self) -> None:
        check_selection(self.name, None, self.tensor_regex, is_required=True)

    def needs(self) -> Needs:
        return Needs(
            tuple(TensorNeed("feature_importance", pattern, statistics=("value",)) for pattern in self.tensor_regex)
        )

    def evaluate(self, window: Window) -> Verdict:
        if window.step < self.start_step:
            return Undecided(f"importances are evaluated from step {self.start_step:,}")
        kinds = _by_kind(window.readings("value"))
        shares = {key: self._share(features) for key, features in kinds.items()}
        known = {key: share for key, share in shares.items() if not math.isnan(share)}
        if not known:
            return Undecided("no feature had any importance at this step")
        worst = max(known, key=lambda key: known[key])
        if known[worst] > self.threshold:
            return self._fired(worst[1], known[worst], kinds[worst])
        return clear_if_complete(window, "importances")

    def _share(self, features: list[TensorReading]) -> float:
        """Return the share of the largest features; NaN if no feature has any importance."""
        total = sum(map(_importance, features))
        return sum(map(_importance, self._largest(features))) / total if total > 0 else math.nan

    def _largest(self, features: list[TensorReading]) -> list[TensorReading]:
        return sorted(features, key=_importance, reverse=True)[: self.nfeatures]

    def _fired(self, kind: str, share: float, features: list[TensorReading]) -> Fired:
        total = sum(map(_importance, features))
        largest = [feature for feature in self._largest(features) if _importance(feature) > 0]
        names = ", ".join(
            f"{_feature(feature)} {percent(_importance(feature) / total)}" for feature in largest[:_MAX_NAMED]
        )
        verb = "has" if len(largest) == 1 else "have"
        subject = (
            f"{len(largest)} of {len(features):,} features {verb}" if len(features) > 1 else "the only feature has"
        )
        return fired(
            f"{subject} {percent(share)} of the importance by {kind}: {names}",
            *largest,
            advice=_ADVICE.given(feature=_feature(largest[0])),
            evidence={
                "kind": kind,
                "share": share,
                "threshold": self.threshold,
                "nfeatures": self.nfeatures,
                "features": len(features),
                "largest": {_feature(feature): _importance(feature) / total for feature in largest},
            },
            worker=features[0].worker,
        )


def _by_kind(readings: Iterable[TensorReading]) -> dict[tuple[str, str], list[TensorReading]]:
    """Group readings by worker and kind of importance: ``weight``, ``gain`` …"""
    by_kind: dict[tuple[str, str], list[TensorReading]] = {}
    for reading in readings:
        match = _KIND.search(reading.tensor)
        by_kind.setdefault((reading.worker, match[1] if match else reading.tensor), []).append(reading)
    return by_kind


def _feature(reading: TensorReading) -> str:
    match = _KIND.search(reading.tensor)
    return match[2] if match else reading.tensor


def _importance(reading: TensorReading) -> float:
    return reading.value if math.isfinite(reading.value) and reading.value > 0 else 0.0
