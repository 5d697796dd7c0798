"""Scenarios of boosters: losses of two sets, importances, trees, labels and predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from leadline.records.series import TensorInfo
from leadline.testing.runs import ArrayStatistics, Capture, Part, RawTensors

FEATURES: Final = ("age", "f/1", "income", "<b>", "z")
KINDS: Final = ("weight", "gain")
_NAN, _INFINITE = float("nan"), float("inf")
_IMPORTANCES = st.sampled_from([0.0, 0.0, 0.1, 0.25, 0.5, 1.0, 4.0, -1.0, _NAN, _INFINITE])
_DEPTHS = st.sampled_from([0.0, 1.0, 3.0, 4.0, 5.0, 9.0, _NAN])
_NODES = st.sampled_from([0.0, 2.0, 6.0, 14.0, 15.0, 30.0, 31.0, 62.0, 1e4, _INFINITE])
_LOSSES = st.sampled_from([0.1, 0.5, 0.7, 1.0, 1.3, _NAN])
_COUNTS = st.sampled_from([0.0, 1.0, 5.0, 40.0])


def loss(step: int, **values: float) -> Capture:
    """Return the losses of a round by set, ``train`` or any other name: ``<set>-logloss``."""
    infos = {}
    for name in values:
        role = "training_set" if name.startswith("train") else "validation_set"
        infos[f"{name}-logloss"] = TensorInfo(f"{name}-logloss", ("losses", "scalars", role), (), "float64")
    return Capture(step, {f"{name}-logloss": {"value": value} for name, value in values.items()}, infos=infos)


def importances(step: int, values: Mapping[str, float], kind: str = "weight", *, worker: str = "rank0-1") -> Capture:
    """Return feature importances of one kind."""
    names = {feature: f"feature_importance/{kind}/{feature}" for feature in values}
    infos = {name: TensorInfo(name, ("feature_importance",), (), "float64") for name in names.values()}
    rows = {names[feature]: {"value": value} for feature, value in values.items()}
    return Capture(step, rows, worker=worker, infos=infos)


def splits(step: int, *counts: float, worker: str = "rank0-1", kind: str = "weight") -> Capture:
    """Return the number of splits by each of some features, and their gain."""
    names = {f"feature_importance/{of}/f{at}": value for of in (kind, "gain") for at, value in enumerate(counts)}
    infos = {name: TensorInfo(name, ("feature_importance",), (), "float64") for name in names}
    return Capture(step, {name: {"value": value} for name, value in names.items()}, worker=worker, infos=infos)


def trees(step: int, *, depth: float | None = None, node: float | None = None, worker: str = "rank0-1") -> Capture:
    """Return the depths or node ids of the trees of a round."""
    values = {"trees/Depth": depth, "trees/Node": node}
    rows = {name: {"max": value} for name, value in values.items() if value is not None}
    infos = {name: TensorInfo(name, ("trees",), (15,), "int64") for name in rows}
    return Capture(step, rows, worker=worker, infos=infos)


def answers(step: int, labels: Sequence[float], predictions: Any, *, is_class: bool = True) -> list[Part]:
    """Return raw labels and predictions of a round; class labels are whole numbers."""
    given = np.asarray(labels, "<i8" if is_class else "<f4")
    predicted = np.asarray(predictions, "<f4")
    kinds = {"labels": ("I64" if is_class else "F32", given), "predictions": ("F32", predicted)}
    row = {name: {"abs_max": 1.0} for name in kinds}
    infos = {name: TensorInfo(name, (name,), array.shape, array.dtype.name) for name, (_, array) in kinds.items()}
    stored = {name: (kind, array.shape, array.tobytes()) for name, (kind, array) in kinds.items()}
    return [Capture(step, row, infos=infos), RawTensors(step, stored)]


def counts(step: int, classes: Sequence[float], confusion: Sequence[Sequence[float]]) -> ArrayStatistics:
    """Return counts of labels by class, and by class and predicted class."""
    info = {"labels": TensorInfo("labels", ("labels",), (8,), "int64")}
    return ArrayStatistics(step, {"labels": {"class_counts": list(classes), "confusion": confusion}}, infos=info)


@st.composite
def tree_scenarios(draw: st.DrawFn) -> list[Part]:
    """Generate a training of a booster on one or two workers; some rounds lack some data."""
    workers = draw(st.sampled_from([("rank0-1",), ("rank0-1", "rank1-2")]))
    every = draw(st.integers(1, 3))
    parts: list[Part] = []
    for step in range(draw(st.integers(0, 16))):
        parts.append(loss(step, train=draw(_LOSSES), holdout=draw(_LOSSES)))
        for worker in workers:
            parts += _captured(draw, step, worker) if step % every == 0 else []
        if draw(st.booleans()):
            parts.append(counts(step, [draw(_COUNTS), draw(_COUNTS)], [[draw(_COUNTS) for _ in "ab"] for _ in "ab"]))
    return parts


def _captured(draw: Any, step: int, worker: str) -> list[Part]:
    parts: list[Part] = []
    for kind in KINDS:
        known = FEATURES[: draw(st.integers(1, len(FEATURES)))]
        parts.append(importances(step, {feature: draw(_IMPORTANCES) for feature in known}, kind, worker=worker))
    depth, node = draw(st.none() | _DEPTHS), draw(st.none() | _NODES)
    if depth is not None or node is not None:
        parts.append(trees(step, depth=depth, node=node, worker=worker))
    return parts
