"""Classification of metrics and evaluation sets."""

from __future__ import annotations

import pytest

from leadline.frameworks.boosting.adapter import dataset_collection, is_loss


@pytest.mark.parametrize(
    "metric",
    [
        "rmse",
        "logloss",
        "mlogloss",
        "error@0.7",
        "tweedie-nloglik@1.5",
        "binary_logloss",
        "l2",
        "my_loss",
        "off_error",
        "weighted_mse",
        "FocalLoss",
    ],
)
def test_losses(metric: str) -> None:
    assert is_loss(metric)


@pytest.mark.parametrize(
    "metric",
    [
        "auc",
        "aucpr",
        "map",
        "map@5",
        "ndcg",
        "ndcg@10-",
        "pre@3",
        "average_precision",
        "f1",
        "accuracy",
        "lossless_share",
    ],
)
def test_a_metric_that_increases_as_a_model_improves_is_no_loss(metric: str) -> None:
    assert not is_loss(metric)


@pytest.mark.parametrize(
    ("name", "is_training_data", "collection"),
    [
        ("validation_0", True, "training_set"),
        ("validation_0", False, "validation_set"),
        ("train", False, "training_set"),
        ("Training", False, "training_set"),
        ("held", False, "validation_set"),
    ],
)
def test_a_set_is_classified_by_its_data_and_its_name(name: str, is_training_data: bool, collection: str) -> None:
    assert dataset_collection(name, is_training_data=is_training_data) == collection
