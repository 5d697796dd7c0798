"""The rule create_xgboost_report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from leadline.rules import Clear, Needs, Rule, TensorNeed, Verdict, Window

_EVERY: Final = 5
_SCALARS: Final = ("losses", "metrics", "feature_importance", "hyperparameters")
_ARRAYS: Final = ("labels", "predictions")


@dataclass(frozen=True, slots=True)
class _ReportData:
    """The data of the report so far."""

    first_step: int
    last_step: int
    with_predictions: int = 0


class CreateXgboostReport(Rule, frozen=True, kw_only=True):
    """Never fires: captures the data of the XGBoost report and keeps the report up to date.

    Why it matters:
        A loss curve does not show which classes are confused, which features matter, or where a regression is
        wrong. The report does, while the training runs and afterwards.
    How it decides:
        Losses, metrics, feature importances, labels and predictions are captured every 5 rounds, the last two as
        raw tensors. The report is generated from them after each evaluation, in ``reports`` of the run directory;
        ``leadline report`` generates the same report at any time.
    Not a number:
        Shown as such; values that cannot be counted are left out, and the report tells how many.
    Blind spots:
        Labels and predictions are those of the evaluation data: without an evaluation set there are no confusion
        matrix, curves and residuals. Raw labels and predictions take 8 to 4 x (classes + 1) bytes per sample at
        each capture.
    Source:
        SageMaker developer guide, "CreateXgboostReport".
    """

    product: ClassVar[str] = "xgboost"

    def needs(self) -> Needs:
        scalars = (TensorNeed(name, statistics=("value",), every=_EVERY, is_optional=True) for name in _SCALARS)
        arrays = (TensorNeed(name, raw=True, every=_EVERY, is_optional=True) for name in _ARRAYS)
        return Needs((*scalars, *arrays))

    def remember(self, memory: Any, window: Window) -> _ReportData:
        known: _ReportData = memory or _ReportData(window.step, window.step)
        has_predictions = any("predictions" in array.tensor for array in window.arrays())
        return _ReportData(known.first_step, window.step, known.with_predictions + has_predictions)

    def evaluate(self, window: Window) -> Verdict:
        known: _ReportData = window.memory
        product = {"rounds": known.last_step - known.first_step + 1}
        return Clear(product | ({"with_predictions": known.with_predictions} if known.with_predictions else {}))
