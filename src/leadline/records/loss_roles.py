"""Pairing of training losses with validation losses of the same name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, Literal

from leadline.records.metric_names import LOGGED, stem_of

Role = Literal["train", "validation"]

TRAINING_SET: Final = "training_set"
"""Collection of the scores of the training data, whatever the evaluation set is called."""
VALIDATION_SET: Final = "validation_set"
"""Collection of the scores of any other evaluation set of a booster."""

_CAPTURED: Final = "losses"
_LOSS: Final = frozenset({"loss"})
_FOLDER: Final = "metrics/"
"""Begins the name of a logged scalar whose own name another tensor has."""
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


def logged_losses(collections: Mapping[str, Collection[str]]) -> list[str]:
    """Return the losses that a script or trainer logged although they were captured: the same loss a second time.

    A trainer logs the mean of some steps, or of an evaluation, by a name such as ``loss`` or ``eval_loss``.

    Args:
        collections: Those of each scalar of a run.
    """
    if not any(_CAPTURED in its and LOGGED not in its for its in collections.values()):
        return []
    return [
        name
        for name, its in collections.items()
        if _CAPTURED not in its and stem_of(name.removeprefix(_FOLDER))[1] == _LOSS
    ]


def _metric_of(name: str) -> str:
    """Return ``rmse`` for ``my-set-rmse``, ``rmse-mean`` for ``test-rmse-mean``, ``ndcg@5-`` for ``test-ndcg@5-``."""
    match = _OF_FOLDS.match(name) or _OF_SET.match(name)
    return match[1] if match else name
