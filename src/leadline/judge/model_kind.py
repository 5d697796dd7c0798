"""What a run trains: neural networks or boosted trees, and with which framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leadline.reader.point import Point
from leadline.records.loss_facts import GUESSES
from leadline.records.loss_roles import TRAINING_SET, VALIDATION_SET
from leadline.records.names import CHECKS, GRADIENT_NORMS, OPTIMIZER_VARIABLES, TREE_COLLECTIONS, is_module_collection
from leadline.records.needs import TensorNeed
from leadline.records.series import SeriesLayout

_NETWORK_COLLECTIONS: Final = frozenset(
    {
        "gradients",
        "weights",
        "biases",
        OPTIMIZER_VARIABLES,
        GRADIENT_NORMS,
        CHECKS,
    }
)
_SHARED_COLLECTIONS: Final = frozenset({"labels", "predictions"})
_TREE_COLLECTIONS: Final = TREE_COLLECTIONS | {TRAINING_SET, VALIDATION_SET}


def is_network_collection(collection: str | None) -> bool:
    """Return whether only networks have a collection: gradients, inputs and outputs of modules …"""
    if collection is None or collection in _SHARED_COLLECTIONS:
        return False
    return collection in _NETWORK_COLLECTIONS or is_module_collection(collection)


class ModelKind:
    """The kind of model, as far as the captured tensors show it.

    Attributes:
        framework: The framework that trains it, as ``recorded_framework`` returns it.
    """

    def __init__(self) -> None:
        self.framework = ""
        self.has_network = self.has_trees = False
        self._seen: dict[int, SeriesLayout] = {}

    @property
    def are_trees(self) -> bool:
        """Whether there are boosted trees, and no network."""
        return self.has_trees and not self.has_network

    def why_not_applicable(self, needs: Sequence[TensorNeed]) -> str:
        """Return why a rule with these needs has nothing to evaluate on such models; empty: it has, as far as known."""
        if not needs:
            return ""
        is_of_trees = any(need.collection in TREE_COLLECTIONS for need in needs)
        if self.are_trees and not is_of_trees and is_network_collection(needs[0].collection):
            is_of_loop = needs[0].collection == CHECKS
            missing = "backward passes and optimizers" if is_of_loop else "gradients, weights or layers"
            return f"boosted trees have no {missing}"
        is_of_network = any(is_network_collection(need.collection) for need in needs)
        if self.has_network and not self.has_trees and is_of_trees and not is_of_network:
            return "no boosted trees are trained"
        return ""

    def update(self, point: Point) -> bool:
        """Look at what was captured; return whether more is known by it."""
        before = (self.has_network, self.has_trees)
        for layout in (group.layout for group in point.groups):
            if id(layout) not in self._seen:
                self._seen[id(layout)] = layout
                infos = [info for info in layout.tensors if info.name.rpartition("/")[2] not in GUESSES]
                collections = {name for info in infos for name in info.collections}
                self.has_network |= any(map(is_network_collection, collections))
                self.has_trees |= not collections.isdisjoint(_TREE_COLLECTIONS)
        return (self.has_network, self.has_trees) != before
