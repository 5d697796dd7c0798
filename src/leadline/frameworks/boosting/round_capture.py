"""What a round of boosting leaves behind, worked out as far as it is wished for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from leadline.frameworks.array_capture import Block, CapturedArrays
from leadline.frameworks.boosting.booster import Array, Booster, Evaluated, Floats
from leadline.records.names import AVERAGE_SHAP, FEATURE_IMPORTANCE, FULL_SHAP, TREES
from leadline.records.plan import CaptureItem
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.statistics.boosting import class_counts, confusion, kind_of, predicted_classes
from leadline.store.tensors import CaptureForm, HostBuffer
from leadline.training.pending import Pending

_TREE_NAMES: Final = tuple(
    f"trees/{each}"
    for each in ("Tree", "Node", "ID", "Feature", "Split", "Yes", "No", "Missing", "Gain", "Cover", "Depth")
)
_OF_CLASSES: Final = frozenset({"class_counts", "confusion"})
_CLASSIFIERS: Final = ("binary", "multiclass")
_BIAS: Final = "bias"


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The columns that are wished for of a collection of numbers."""

    block: Block
    places: dict[str, npt.NDArray[np.intp]]
    """By statistic: of which of the names it is wished for, in the order of the block's columns."""


class RoundCapture:
    """See ``leadline.frameworks.adapter.Forward``: works out what is due when its row is asked for.

    Args:
        tell: Takes a line about something that cannot be captured.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.own_ns = self.begun_ns = 0
        self.accuracy: dict[str, Any] = {}
        self._arrays = CapturedArrays(tell)
        self._items: Sequence[CaptureItem] = ()
        self._booster: Booster | None = None
        self._known: dict[tuple[object, ...], _Numbers] = {}
        self._labels: tuple[Array, str, Array, bool] | None = None
        """As they were read last, for which objective; as they are kept, and whether they are classes."""

    def of(self, booster: Booster, items: Sequence[CaptureItem]) -> RoundCapture:
        """From here on it is about a round of this booster, and these wishes are due."""
        self._booster, self._items = booster, items
        return self

    def row(self) -> tuple[SeriesLayout, bytes] | None:
        """The numbers of the round."""
        booster, self._booster = self._booster, None
        if booster is None:
            return None
        self._arrays.begin(self._items, "train")
        self._keep_importances(booster)
        self._keep_contributions(booster)
        if any(self._is_wished(name, TREES) for name in _TREE_NAMES):
            for name, column in booster.trees().items():
                self._arrays.keep(f"trees/{name}", (TREES,), column)
        if self._is_wished("labels", "labels") or self._is_wished("predictions", "predictions"):
            found = booster.evaluated()
            if found is not None:
                self._keep_evaluated(found, booster.objective)
        return self._arrays.row()

    def raw_form(self) -> CaptureForm | None:
        """The form of what is stored as it is."""
        return self._arrays.raw_form()

    def fill(self, buffer: HostBuffer | None) -> Pending | None:
        """Copy that into a buffer of ``raw_form()``."""
        return self._arrays.fill(buffer)

    # --- inside -------------------------------------------------------------------------------------------

    def _is_wished(self, name: str, collection: str) -> bool:
        statistics, is_raw = self._arrays.wish(name, (collection,))
        return is_raw or bool(statistics)

    def _keep_importances(self, booster: Booster) -> None:
        asked = [item for item in self._items if item.collection in (FEATURE_IMPORTANCE, "all", None)]
        found = booster.importances() if asked else {}
        chosen = self._numbers(FEATURE_IMPORTANCE, tuple(found), booster.features, ("value",), asked)
        if chosen.block.columns:
            values = np.concatenate([normalised(each) for each in found.values()])
            self._arrays.numbers(chosen.block, values[chosen.places["value"]])

    def _keep_contributions(self, booster: Booster) -> None:
        """By name or regular expression only: SHAP values of all samples take longer than the round itself."""
        asked = [item for item in self._items if item.collection in (AVERAGE_SHAP, FULL_SHAP, None)]
        features = (*booster.features, _BIAS) if asked else ()
        chosen = self._numbers(AVERAGE_SHAP, ("",), features, ("value", "abs_mean"), asked)
        is_full = any(item.selects(FULL_SHAP, frozenset({FULL_SHAP})) for item in asked)
        found = booster.contributions() if chosen.block.columns or is_full else None
        if found is None:
            return
        if chosen.block.columns:
            over = tuple(range(found.ndim - 1))
            means = {"value": found.mean(over), "abs_mean": np.abs(found).mean(over)}
            self._arrays.numbers(chosen.block, np.concatenate([means[each][at] for each, at in chosen.places.items()]))
        if is_full:
            self._arrays.keep(FULL_SHAP, (FULL_SHAP,), found)

    def _numbers(
        self,
        collection: str,
        kinds: tuple[str, ...],
        features: tuple[str, ...],
        statistics: Sequence[str],
        items: Sequence[CaptureItem],
    ) -> _Numbers:
        """Which numbers of a collection are wished for: of each kind one for each feature."""
        key = (collection, kinds, features, *(id(item) for item in items))
        if key not in self._known:
            names = ["/".join(filter(None, (collection, kind, each))) for kind in kinds for each in features]
            self._known[key] = _choose(collection, names, statistics, items)
        return self._known[key]

    def _keep_evaluated(self, found: Evaluated, objective: str) -> None:
        labels, is_of_classes = self._labels_of(found, objective)
        self._keep_plain("labels", labels, is_lasting=True)
        self._keep_plain("predictions", found.predictions)
        if is_of_classes:
            self._keep_classes(labels, predicted_classes(found.predictions, objective))

    def _labels_of(self, found: Evaluated, objective: str) -> tuple[Array, bool]:
        """The labels, classes as whole numbers; the very same array as long as they stay the same."""
        if self._labels is not None:
            read, known_objective, labels, is_of_classes = self._labels
            if known_objective == objective and np.array_equal(read, found.labels):
                return labels, is_of_classes
        is_of_classes = found.labels.ndim == 1 and kind_of(objective, found.labels, found.predictions) in _CLASSIFIERS
        labels = found.labels.astype(np.int64 if is_of_classes else found.labels.dtype)
        self._labels = (found.labels.copy(), objective, labels, is_of_classes)
        return labels, is_of_classes

    def _keep_plain(self, name: str, array: Any, *, is_lasting: bool = False) -> None:
        """What is said of any array; what is said of classes is worked out from these."""
        self._arrays.keep(name, (name,), array, without=_OF_CLASSES, is_lasting=is_lasting)

    def _keep_classes(self, labels: Any, predicted: Any) -> None:
        for name, classes in (("labels", labels), ("predictions", predicted)):
            statistics, is_raw = self._arrays.wish(name, (name,))
            if is_raw or "class_counts" in statistics:
                self._arrays.vector(name, "class_counts", class_counts(classes))
            if name == "labels" and (is_raw or "confusion" in statistics):
                counts = confusion(classes, predicted)
                if counts is not None:
                    self._arrays.vector(name, "confusion", counts)


def normalised(values: Floats) -> Floats:
    """Shares of the sum; of what sums up to nothing, as it is.

    Shape:
        ``(features,)``.
    """
    total = float(values.sum())
    return values / total if total else values


def _choose(collection: str, names: Sequence[str], statistics: Sequence[str], items: Sequence[CaptureItem]) -> _Numbers:
    own = frozenset({collection})
    places = {
        statistic: [
            at
            for at, name in enumerate(names)
            if any(statistic in item.statistics and item.selects(name, own) for item in items)
        ]
        for statistic in statistics
    }
    kept = sorted({at for each in places.values() for at in each})
    infos = tuple(TensorInfo(names[at], (collection,), (), "float64") for at in kept)
    index = {at: position for position, at in enumerate(kept)}
    columns = tuple((index[at], statistic) for statistic, each in places.items() for at in each)
    return _Numbers(Block(infos, columns), {each: np.array(at, np.intp) for each, at in places.items()})
