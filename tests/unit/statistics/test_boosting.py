"""The kind of a booster, and the classes of its predictions."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.statistics.boosting import class_counts, confusion, kind_of, predicted_classes
from leadline.statistics.definitions import MAX_CLASSES

NAN = float("nan")


@pytest.mark.parametrize(
    ("objective", "kind"),
    [
        ("binary:logistic", "binary"),
        ("binary:hinge", "binary"),
        ("binary", "binary"),
        ("multi:softmax", "multiclass"),
        ("multi:softprob", "multiclass"),
        ("multiclassova", "multiclass"),
        ("reg:squarederror", "regression"),
        ("count:poisson", "regression"),
        ("regression_l1", "regression"),
        ("rank:ndcg", "ranking"),
        ("lambdarank", "ranking"),
        ("survival:cox", "other"),
        ("reg:logistic", "regression"),
        (None, "other"),
        ("my_own", "other"),
    ],
)
def test_the_kind_by_the_objective(objective: str | None, kind: str) -> None:
    assert kind_of(objective) == kind


def test_the_kind_by_the_labels_without_a_known_objective() -> None:
    assert kind_of(None, np.array([0.0, 1.0, 1.0])) == "binary"
    assert kind_of("reg:logistic", np.array([0.0, 1.0])) == "binary"
    assert kind_of(None, np.array([0.0, 2.0, 1.0])) == "regression"
    assert kind_of(None, np.array([0.5, 1.0])) == "regression"
    assert kind_of(None, np.array([0.0, 2.0]), np.zeros((2, 3))) == "multiclass"
    assert kind_of(None, np.array([0.0, 3.0]), np.zeros((2, 3))) == "other"
    assert kind_of(None, np.array([])) == "other"


def test_the_classes_of_predictions() -> None:
    assert predicted_classes(np.array([0.5, 0.51]), "binary:logistic").tolist() == [0, 1]
    assert predicted_classes(np.array([-0.1, 0.0, 0.1]), "binary:logitraw").tolist() == [0, 0, 1]
    assert predicted_classes(np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]), "multi:softprob").tolist() == [2, 0]
    assert predicted_classes(np.array([2.0, 0.0], np.float32), "multi:softmax").tolist() == [2, 0]
    assert predicted_classes(np.array([[0.4], [0.6]]), None).tolist() == [0, 1]
    assert predicted_classes(np.array([-2.0, 0.4]), None).tolist() == [0, 1]
    assert predicted_classes(np.array([NAN, 1.0]), "binary:logistic").tolist() == [0, 1]


def test_labels_and_predictions_are_counted_together() -> None:
    labels = np.array([0, 0, 1, 2, 2, 2])
    predicted = np.array([0, 1, 1, 2, 0, 2])
    assert confusion(labels, predicted).tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 2]]
    assert confusion(labels.astype(np.float32), predicted, classes=4).shape == (4, 4)
    assert confusion(np.array([NAN, 0.5, -1.0, 1.0]), np.array([0, 0, 0, 1])).tolist() == [[0, 0], [0, 1]]


def test_too_many_classes_or_none_make_no_matrix() -> None:
    assert confusion(np.array([0, MAX_CLASSES]), np.array([0, 0])) is None
    assert confusion(np.array([]), np.array([])) is None


def test_classes_are_counted() -> None:
    assert class_counts(np.array([0.0, 2.0, 2.0])).tolist() == [1, 0, 2]
    assert class_counts(np.array([NAN, -1.0, 0.5, float(MAX_CLASSES)])).tolist() == []
