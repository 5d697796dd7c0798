"""Which metrics of evaluation sets are losses, and which sets are of the training data."""

from __future__ import annotations

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
"""Metrics of both that fall while a model gets better, without what stands behind an ``@``."""
_WORDS: Final = "loss|error|err|deviance|nloglik|nll|mse|rmse|mae"
_LOSS_WORDS: Final = re.compile(rf"(?:^|[-_])(?:{_WORDS})(?:$|[-_@\d])|loss$", re.IGNORECASE)


def is_loss(metric: str) -> bool:
    """Whether a metric falls while a model gets better; of one that neither framework has, by its name.

    Args:
        metric: Without the set's name: ``rmse``, ``error@0.7``.
    """
    name = metric.partition("@")[0].rstrip("-")
    return name in LOSSES or _LOSS_WORDS.search(name) is not None


def mark_of(name: str, *, is_training_data: bool) -> str:
    """The collection that tells a set of samples seen in training from one held back.

    Args:
        name: The set's.
        is_training_data: Whether it is the very object that is trained on.
    """
    return TRAINING_SET if is_training_data or name.lower().startswith("train") else VALIDATION_SET
