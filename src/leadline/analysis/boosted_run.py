"""A run of boosted trees with all that is told of its model, read once, and of each round only once."""

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
class Known:
    """What was counted of rounds that are over; they do not change any more."""

    matrices: dict[int, Floats | None] = field(default_factory=dict)
    """Confusion matrices by round; None where there is none."""
    errors: dict[tuple[int, bytes], Floats | None] = field(default_factory=dict)
    """Mean absolute errors by round and edges of the bins."""


@dataclass(frozen=True)
class Boosted:
    """A run of trees with what the sections share, read once."""

    run: Run
    known: Known = field(default_factory=Known)

    @cached_property
    def model(self) -> trees.BoostedModel:
        return trees.read_model(self.run)

    @cached_property
    def last(self) -> trees.Answers | None:
        """Labels and predictions of the last round that has them."""
        return trees.read_answers(self.run, self.model.steps[-1]) if self.model.steps else None

    @cached_property
    def matrices(self) -> dict[int, Floats]:
        """Confusion matrices by round; of classifiers only."""
        return trees.matrices(self.run, self.model, known=self.known.matrices) if self.is_classifier else {}

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
        """Whether labels and predictions are those that were trained on."""
        name = self.model.evaluated_on
        if not name or not self.model.steps:
            return False
        known = [*self.losses, *trees.losses(self.run, "metrics")]
        roles = {each.role for each in known if each.name.startswith(f"{name}-")}
        return roles == {"train"} if roles else name.lower().startswith("train")

    @property
    def matrix(self) -> Floats | None:
        """The last of the matrices."""
        return self.matrices[max(self.matrices)] if self.matrices else None

    def errors_by_bin(self) -> tuple[list[int], Floats, Floats]:
        """Rounds, mean absolute errors ``(rounds, bins)`` and the edges of the bins, of a regression."""
        if self.last is None:
            return [], np.zeros((0, 0)), np.zeros(0)
        edges = scores.bin_edges(self.last.labels)
        steps = trees.chosen_steps(self.model) if len(edges) > 1 else ()
        rows = {step: self._errors_at(step, edges) for step in steps}
        told = {step: each for step, each in rows.items() if each is not None}
        return list(told), np.array([*told.values()]) if told else np.zeros((0, 0)), edges

    def _errors_at(self, step: int, edges: Floats) -> Floats | None:
        key = (step, edges.tobytes())
        if key not in self.known.errors:
            found = trees.read_answers(self.run, step)
            is_single = found is not None and found.predictions.ndim == 1
            self.known.errors[key] = (
                scores.error_by_bin(found.labels, found.predictions, edges) if found and is_single else None
            )
        return self.known.errors[key]

    def curves(self) -> dict[str, scores.Curve]:
        """ROC curves at the last round, to draw."""
        if self.last is None or not self.is_classifier:
            return {}
        labels, given = self.last.labels, self.last.predictions
        if given.ndim > 1:
            found = scores.roc_of_classes(labels, given)
        elif self.model.kind == "multiclass":
            found = {}
        else:
            curve = scores.roc(labels == 1, given)
            found = {"1": curve} if curve else {}
        return {name: scores.thinned(each) for name, each in found.items()}
