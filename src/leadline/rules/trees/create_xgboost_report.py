"""The rule create_xgboost_report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import Window

_EVERY: Final = 5
_NUMBERS: Final = ("losses", "metrics", "feature_importance", "hyperparameters")
_ARRAYS: Final = ("labels", "predictions")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a report can be made of so far."""

    first_step: int
    last_step: int
    with_predictions: int = 0


class CreateXgboostReport(Rule, frozen=True, kw_only=True):
    """Never fires: has what the XGBoost report needs captured, and keeps the report up to date.

    Why it matters:
        A curve of the loss does not tell which classes are mistaken, which features decide, or where a regression is
        off. The report does, while the training runs and afterwards.
    How it decides:
        Every 5 rounds losses, metrics, feature importances, labels and predictions are captured, the last two whole.
        The report is made of them after each look at the run, in the run's ``reports``; ``leadline report`` makes the
        same at any time.
    Not a number:
        Shown as such; what cannot be counted is left out, and the report says how much.
    Blind spots:
        Labels and predictions are those of the data that the booster is evaluated on: without an evaluation set there
        are no confusion matrix, curve and residuals. They are written whole, 8 to 4 x (classes + 1) bytes a sample
        each time.
    Args:
    Source:
        SageMaker developer guide, "CreateXgboostReport".
    """

    product: ClassVar[str] = "xgboost"

    def needs(self) -> Needs:
        numbers = (TensorNeed(each, statistics=("value",), every=_EVERY) for each in _NUMBERS)
        return Needs((*numbers, *(TensorNeed(each, raw=True, every=_EVERY) for each in _ARRAYS)))

    def remember(self, memory: Any, window: Window) -> _Seen:
        seen: _Seen = memory or _Seen(window.step, window.step)
        has_predictions = any("predictions" in each.tensor for each in window.arrays())
        return _Seen(seen.first_step, window.step, seen.with_predictions + has_predictions)

    def evaluate(self, window: Window) -> Verdict:
        seen: _Seen = window.memory
        product = {"rounds": seen.last_step - seen.first_step + 1}
        return Clear(product | ({"with_predictions": seen.with_predictions} if seen.with_predictions else {}))
