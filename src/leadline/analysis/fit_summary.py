"""Text summary of the fit of boosted trees: overfitting or underfitting, from the losses per round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from leadline.analysis.trees import Loss

_GAP: Final = 0.1
"""A validation loss this much above the training loss, relative to it, is mentioned; as in the rule ``overfit``."""
_RISE: Final = 0.02
"""Rise of the validation loss above its minimum, relative to it."""
_FALL: Final = 0.02
"""A loss is still falling if the last tenth of the rounds has at least this share of the total decrease."""
_MIN_DECREASE: Final = 0.05
"""A relative decrease of the training loss below this counts as underfitting."""
_MIN_ROUNDS: Final = 5


def summarize_fit(losses: Sequence[Loss]) -> list[str]:
    """Return one or two sentences for each loss with training or validation values."""
    by_stem: dict[str, dict[str, list[Loss]]] = {}
    for loss in losses:
        if np.isfinite(loss.values).sum() >= _MIN_ROUNDS:
            by_stem.setdefault(loss.stem, {}).setdefault(loss.role, []).append(loss)
    texts = [
        text
        for by_role in by_stem.values()
        for text in _summarize(by_role.get("train", []), by_role.get("validation", []))
    ]
    return texts or ["Fewer than 5 rounds were captured: too few to assess the fit of the model."]


def _summarize(train: Sequence[Loss], validation: Sequence[Loss]) -> list[str]:
    if not validation:
        return [
            f"{train[0].name}: without a validation loss, overfitting cannot be detected. {_assess_training(train[0])}"
        ]
    return [_compare(train[0] if train else None, loss) for loss in validation]


def _compare(train: Loss | None, validation: Loss) -> str:
    steps, values = _finite(validation)
    best = int(values.argmin())
    rise = (values[-1] - values[best]) / max(abs(values[best]), 1e-300)
    if rise > _RISE and best < len(values) - 1:
        trained = "" if train is None else _training_since(train, int(steps[best]))
        return (
            f"{validation.name} reached its minimum at round {steps[best]:,} ({values[best]:.4g}) "
            f"and has risen by {rise:.0%} since, to {values[-1]:.4g}{trained}: overfitting. "
            f"Early stopping would have kept round {steps[best]:,}."
        )
    if train is None:
        return f"{validation.name} is at its minimum, {values[best]:.4g}. There is no training loss to compare it with."
    last = _finite(train)[1][-1]
    gap = (values[-1] - last) / max(abs(last), 1e-300)
    if gap > _GAP:
        return (
            f"{validation.name} ({values[-1]:.4g}) is {_format_gap(gap)} {train.name} ({last:.4g}) and does not rise: "
            "the model fits its training set better than new data. A smaller max_depth, a larger "
            "min_child_weight or lambda, or subsample below 1 reduce the gap."
        )
    return f"{validation.name} ({values[-1]:.4g}) is close to {train.name} ({last:.4g}). {_assess_training(train)}"


def _assess_training(loss: Loss) -> str:
    """Return a sentence on whether more training would help."""
    _, values = _finite(loss)
    fall = values[0] - values.min()
    if fall < _MIN_DECREASE * abs(values[0]):
        return (
            f"It has decreased by only {fall / max(abs(values[0]), 1e-300):.1%} in total: underfitting, or nothing to  "
            "learn from these features. Deeper trees or a larger learning rate show which."
        )
    late = values[int(len(values) * 0.9) - 1] - values[-1]
    if late > _FALL * fall:
        return "It is still falling: more rounds or a larger learning rate would improve it (underfitting)."
    return "It has converged: no sign of overfitting or underfitting."


def _training_since(train: Loss, since: int) -> str:
    steps, values = _finite(train)
    then = values[steps <= since]
    return (
        f", while {train.name} fell from {then[-1]:.4g} to {values[-1]:.4g}"
        if then.size and values[-1] < then[-1]
        else ""
    )


def _format_gap(gap: float) -> str:
    return f"{gap:.0%} above" if gap < 2 else f"{gap + 1:,.3g} times"


def _finite(loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    known = np.isfinite(loss.values)
    return loss.steps[known], loss.values[known]
