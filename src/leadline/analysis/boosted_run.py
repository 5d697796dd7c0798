"""Run of boosted trees, with cached model data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.analysis import scores, trees

if TYPE_CHECKING:
    from leadline.analysis.scores import Floats
    from leadline.reader.run import Run

_CLASSES: Final = ("binary", "multiclass")


@dataclass(slots=True)
class RoundCache:
    """Results for completed rounds, which no longer change."""

    matrices: dict[int, Floats | None] = field(default_factory=dict)
    """Confusion matrices by round; None if a round has none."""
    errors: dict[tuple[int, bytes], Floats | None] = field(default_factory=dict)
    """Mean absolute errors by round and bin edges."""


@dataclass(frozen=True)
class BoostedRun:
    """A run of boosted trees with the data that report sections share."""

    run: Run
    cache: RoundCache = field(default_factory=RoundCache)

    @cached_property
    def model(self) -> trees.BoostedModel:
        return trees.read_model(self.run)

    @cached_property
    def last(self) -> trees.LabeledPredictions | None:
        """The labels and predictions of the last round that has them."""
        return trees.read_predictions(self.run, self.model.steps[-1]) if self.model.steps else None

    @cached_property
    def matrices(self) -> dict[int, Floats]:
        """The confusion matrices by round; for classifiers only."""
        return trees.matrices(self.run, self.model, cache=self.cache.matrices) if self.is_classifier else {}

    @cached_property
    def importances(self) -> dict[str, dict[str, float]]:
        return trees.importances(self.run)

    @cached_property
    def losses(self) -> list[trees.Loss]:
        return trees.losses(self.run)

    @property
    def is_classifier(self) -> bool:
        return self.model.kind in _CLASSES or (
            self.model.kind == "other" and ("labels", "confusion") in self.run.archive.vectors
        )

    @property
    def is_of_training_set(self) -> bool:
        """Whether labels and predictions are those of the training set."""
        name = self.model.evaluated_on
        if not name or not self.model.steps:
            return False
        curves = [*self.losses, *trees.losses(self.run, "metrics")]
        roles = {curve.role for curve in curves if curve.name.startswith(f"{name}-")}
        return roles == {"train"} if roles else name.lower().startswith("train")

    @property
    def matrix(self) -> Floats | None:
        """The last confusion matrix."""
        return self.matrices[max(self.matrices)] if self.matrices else None

    def errors_by_bin(self) -> tuple[list[int], Floats, Floats]:
        """Return rounds, mean absolute errors ``(rounds, bins)`` and bin edges; for regressions."""
        if self.last is None:
            return [], np.zeros((0, 0)), np.zeros(0)
        edges = scores.bin_edges(self.last.labels)
        steps = trees.chosen_steps(self.model) if len(edges) > 1 else ()
        rows = {step: self._errors_at(step, edges) for step in steps}
        errors = {step: row for step, row in rows.items() if row is not None}
        return list(errors), np.array([*errors.values()]) if errors else np.zeros((0, 0)), edges

    def _errors_at(self, step: int, edges: Floats) -> Floats | None:
        key = (step, edges.tobytes())
        if key not in self.cache.errors:
            answers = trees.read_predictions(self.run, step)
            is_single = answers is not None and answers.predictions.ndim == 1
            self.cache.errors[key] = (
                scores.error_by_bin(answers.labels, answers.predictions, edges) if answers and is_single else None
            )
        return self.cache.errors[key]

    def curves(self) -> dict[str, scores.Curve]:
        """Return the ROC curves of the last round, simplified for drawing."""
        if self.last is None or not self.is_classifier:
            return {}
        labels, predictions = self.last.labels, self.last.predictions
        if predictions.ndim > 1:
            curves = scores.roc_of_classes(labels, predictions)
        elif self.model.kind == "multiclass":
            curves = {}
        else:
            curve = scores.roc(labels == 1, predictions)
            curves = {"1": curve} if curve else {}
        return {name: scores.simplify_curve(curve) for name, curve in curves.items()}
