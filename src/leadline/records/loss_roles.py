"""Pairing of training losses with validation losses of the same name."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, Literal

Role = Literal["train", "validation"]

TRAINING_SET: Final = "training_set"
"""Collection of the scores of the training data, whatever the evaluation set is called."""
VALIDATION_SET: Final = "validation_set"
"""Collection of the scores of any other evaluation set of a booster."""

_CAPTURED: Final = "losses"
_PREFIX: Final = re.compile(
    r"^(train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)\d*[-_/. ](?=.)", re.IGNORECASE
)
_SUFFIX: Final = re.compile(
    r"(?<=.)[-_/. ](train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test)\d*$", re.IGNORECASE
)
"""Not ``dev``, which is a deviation there."""
_OF_FOLDS: Final = re.compile(r"^.*-([^-]+-(?:mean|std))$", re.DOTALL)
_OF_SET: Final = re.compile(r"^.*-(.+)$", re.DOTALL)


def role_of(name: str, mode: str, collections: Collection[str] = ()) -> tuple[Role, str]:
    """Return whether a loss is a training or a validation loss, and the name that both share.

    For a booster's evaluation sets (``<set>-<metric>``) it is known which one is the training data. A loss that was
    captured in an eval step is a validation loss. Otherwise the prefix of the name decides, as in Keras (``val_loss``),
    or else its suffix, as in PyTorch's tutorials (``Loss/test``): ``train/loss`` may be logged in the next eval step.
    Without either it is a training loss, unless it was logged in an eval step.
    """
    if TRAINING_SET in collections or VALIDATION_SET in collections:
        return ("train" if TRAINING_SET in collections else "validation"), _metric_of(name)
    found = _PREFIX.match(name) or _SUFFIX.search(name)
    stem = f"{name[: found.start()]}{name[found.end() :]}" if found else name
    if found is None or (mode == "eval" and _CAPTURED in collections):
        return ("validation" if mode == "eval" else "train"), stem
    return ("train" if found[1].lower().startswith("train") else "validation"), stem


def _metric_of(name: str) -> str:
    """Return ``rmse`` for ``my-set-rmse``, ``rmse-mean`` for ``test-rmse-mean``, ``ndcg@5-`` for ``test-ndcg@5-``."""
    match = _OF_FOLDS.match(name) or _OF_SET.match(name)
    return match[1] if match else name
