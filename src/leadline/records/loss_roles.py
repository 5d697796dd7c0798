"""Which losses belong together: the training's and the validation's of one name."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, Literal

Role = Literal["train", "validation"]

TRAINING_SET: Final = "training_set"
"""Collection of the numbers of a set that is the one that is trained on, whatever it is called."""
VALIDATION_SET: Final = "validation_set"
"""Collection of the numbers of any other set that a booster is evaluated on."""

_PREFIX: Final = re.compile(
    r"^(train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)\d*[-_/. ](?=.)", re.IGNORECASE
)
_OF_FOLDS: Final = re.compile(r"^.*-([^-]+-(?:mean|std))$", re.DOTALL)
_OF_SET: Final = re.compile(r"^.*-(.+)$", re.DOTALL)


def role_of(name: str, mode: str, collections: Collection[str] = ()) -> tuple[Role, str]:
    """Whether a loss is of training or of validation, and what both are called without that.

    A loss of an eval step is of validation; of a booster's sets it is known which is trained on (``<set>-<metric>``);
    else what stands in front of the name decides, as Keras has it (``val_loss``); else it is of training.
    """
    if TRAINING_SET in collections or VALIDATION_SET in collections:
        return ("train" if TRAINING_SET in collections else "validation"), _metric_of(name)
    prefix = _PREFIX.match(name)
    stem = name[prefix.end() :] if prefix else name
    is_training = prefix is None or prefix[1].lower().startswith("train")
    return ("validation" if mode == "eval" or not is_training else "train"), stem


def _metric_of(name: str) -> str:
    """``rmse`` of ``my-set-rmse``, ``rmse-mean`` of ``test-rmse-mean``, ``ndcg@5-`` of ``test-ndcg@5-``."""
    match = _OF_FOLDS.match(name) or _OF_SET.match(name)
    return match[1] if match else name
