"""Whether a training fits too little or too much, in words, from its losses over the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from leadline.analysis.trees import Loss

_GAP: Final = 0.1
"""Validation loss above training loss, relative to it, from which on it is worth a word; as the rule overfit has it."""
_RISE: Final = 0.02
"""Rise of the validation loss above its lowest, relative to that."""
_FALL: Final = 0.02
"""Share of the whole fall that the last tenth of the rounds has, from which on a loss is still falling."""
_LITTLE: Final = 0.05
"""Fall of the training loss below which hardly anything was learned."""
_FEWEST: Final = 5


def fit_words(losses: Sequence[Loss]) -> list[str]:
    """One sentence or two for each loss of which training and validation, or one of them, is known."""
    by_stem: dict[str, dict[str, list[Loss]]] = {}
    for each in losses:
        if np.isfinite(each.values).sum() >= _FEWEST:
            by_stem.setdefault(each.stem, {}).setdefault(each.role, []).append(each)
    found = [words for each in by_stem.values() for words in _words(each.get("train", []), each.get("validation", []))]
    return found or ["Fewer than 5 rounds were captured: too few to say how well the model fits."]


def _words(train: Sequence[Loss], validation: Sequence[Loss]) -> list[str]:
    if not validation:
        return [
            f"{train[0].name}: there is no validation loss of it, so overfitting cannot be seen. {_under(train[0])}"
        ]
    return [_pair(train[0] if train else None, each) for each in validation]


def _pair(train: Loss | None, validation: Loss) -> str:
    steps, values = _finite(validation)
    best = int(values.argmin())
    rise = (values[-1] - values[best]) / max(abs(values[best]), 1e-300)
    if rise > _RISE and best < len(values) - 1:
        trained = "" if train is None else _meanwhile(train, int(steps[best]))
        return (
            f"{validation.name} was lowest at round {steps[best]:,} ({values[best]:.4g}) and has risen by {rise:.0%} "
            f"since, to {values[-1]:.4g}{trained}: overfitting. Early stopping would have kept round {steps[best]:,}."
        )
    if train is None:
        return (
            f"{validation.name} is at its lowest, {values[best]:.4g}. No loss of the training set is there to compare."
        )
    last = _finite(train)[1][-1]
    gap = (values[-1] - last) / max(abs(last), 1e-300)
    if gap > _GAP:
        return (
            f"{validation.name} ({values[-1]:.4g}) is {_times(gap)} {train.name} ({last:.4g}), and does not rise: "
            "the model knows its training set better than it knows new data. A smaller max_depth, a larger "
            "min_child_weight or lambda, subsample below 1 bring the two together."
        )
    return f"{validation.name} ({values[-1]:.4g}) is close to {train.name} ({last:.4g}). {_under(train)}"


def _under(loss: Loss) -> str:
    """Whether more could be learned."""
    _, values = _finite(loss)
    fall = values[0] - values.min()
    if fall < _LITTLE * abs(values[0]):
        return (
            f"It has fallen by only {fall / max(abs(values[0]), 1e-300):.1%} in all: underfitting, or nothing to be "
            "learned from these features. Deeper trees or a larger learning rate tell which."
        )
    late = values[int(len(values) * 0.9) - 1] - values[-1]
    if late > _FALL * fall:
        return "It is still falling: more rounds, or a larger learning rate, would still gain (underfitting)."
    return "It has levelled off: neither over- nor underfitting is to be seen."


def _meanwhile(train: Loss, since: int) -> str:
    steps, values = _finite(train)
    then = values[steps <= since]
    return (
        f", while {train.name} fell from {then[-1]:.4g} to {values[-1]:.4g}"
        if then.size and values[-1] < then[-1]
        else ""
    )


def _times(gap: float) -> str:
    return f"{gap:.0%} above" if gap < 2 else f"{gap + 1:,.3g} times"


def _finite(loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    known = np.isfinite(loss.values)
    return loss.steps[known], loss.values[known]
