"""What kind of model trains, as far as the stream of a run has told: a network, or boosted trees."""

from __future__ import annotations

from typing import Final

from leadline.reader.view import Point
from leadline.records.loss_roles import TRAINING_SET, VALIDATION_SET
from leadline.records.names import CHECKS, GRADIENT_NORMS, OPTIMIZER_VARIABLES, TREE_COLLECTIONS, is_module_collection
from leadline.records.series import SeriesLayout

_OF_NETWORKS: Final = frozenset(
    {
        "gradients",
        "weights",
        "biases",
        OPTIMIZER_VARIABLES,
        GRADIENT_NORMS,
        CHECKS,
    }
)
_OF_BOTH: Final = frozenset({"labels", "predictions"})
_OF_TREES: Final = TREE_COLLECTIONS | {TRAINING_SET, VALIDATION_SET}


def is_of_networks(collection: str | None) -> bool:
    """Whether a collection is one that only networks have: gradients, what modules take and give …"""
    if collection is None or collection in _OF_BOTH:
        return False
    return collection in _OF_NETWORKS or is_module_collection(collection)


class ModelKind:
    """What was met of models in a run."""

    def __init__(self) -> None:
        self.has_network = self.has_trees = False
        self._seen: dict[int, SeriesLayout] = {}

    @property
    def are_trees(self) -> bool:
        """Whether there are boosters, and no network."""
        return self.has_trees and not self.has_network

    def meet(self, point: Point) -> bool:
        """Look at what was captured; whether one knows more by it."""
        before = (self.has_network, self.has_trees)
        for row in point.rows:
            if id(row.layout) not in self._seen:
                self._seen[id(row.layout)] = row.layout
                found = {each for info in row.layout.tensors for each in info.collections}
                self.has_network |= any(map(is_of_networks, found))
                self.has_trees |= not found.isdisjoint(_OF_TREES)
        return (self.has_network, self.has_trees) != before
