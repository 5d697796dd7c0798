"""Classification of evaluation metrics into losses and others, and of evaluation sets into training and validation."""

from __future__ import annotations

import functools
import re
from typing import Final

TRAINING_SET: Final = "training_set"
VALIDATION_SET: Final = "validation_set"

LOSSES: Final = frozenset(
    {
        # XGBoost
        "rmse",
        "rmsle",
        "mae",
        "mape",
        "mphe",
        "logloss",
        "error",
        "merror",
        "mlogloss",
        "poisson-nloglik",
        "gamma-nloglik",
        "gamma-deviance",
        "tweedie-nloglik",
        "cox-nloglik",
        "aft-nloglik",
        "quantile",
        "expectile",
        # LightGBM
        "l1",
        "l2",
        "huber",
        "fair",
        "poisson",
        "gamma",
        "gamma_deviance",
        "tweedie",
        "binary_logloss",
        "binary_error",
        "multi_logloss",
        "multi_error",
        "cross_entropy",
        "cross_entropy_lambda",
        "kullback_leibler",
    }
)
"""Metrics of both frameworks that decrease as a model improves, without the part after an ``@``."""
_WORDS: Final = "loss|error|err|deviance|nloglik|nll|mse|rmse|mae"
_LOSS_WORDS: Final = re.compile(rf"(?:^|[-_])(?:{_WORDS})(?:$|[-_@\d])|loss$", re.IGNORECASE)


@functools.cache
def is_loss(metric: str) -> bool:
    """Return whether a metric decreases as a model improves; unknown metrics are judged by their name.

    Args:
        metric: Without the set's name: ``rmse``, ``error@0.7``.
    """
    name = metric.partition("@")[0].rstrip("-")
    return name in LOSSES or _LOSS_WORDS.search(name) is not None


def dataset_collection(name: str, *, is_training_data: bool) -> str:
    """Return the collection that marks an evaluation set as training or validation data.

    Args:
        name: The name of the set.
        is_training_data: Whether it is the same object as the training data.
    """
    return TRAINING_SET if is_training_data or name.lower().startswith("train") else VALIDATION_SET
