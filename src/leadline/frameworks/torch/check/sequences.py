"""The probe of predictions that see what they predict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from leadline.frameworks.check.outcome import Tested, not_applicable
from leadline.frameworks.check.positions import (
    MIN_LENGTH,
    NO_POSITIONS,
    NO_SEQUENCES,
    changed_positions,
    judge_positions,
)
from leadline.frameworks.check.samples import IGNORED
from leadline.frameworks.torch.check.batch import Prediction, Sequences
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_copy import Values

_POINTWISE: Final = frozenset(
    "add div dropout embedding gelu layer_norm linear mul relu sigmoid silu sub tanh".split()  # noqa: SIM905
)
"""Functions that leave positions apart."""


def look_ahead(subject: CheckedStep) -> Tested:
    """If labels are the inputs of later positions: change inputs, and see which predictions change."""
    step, batch = subject.step, subject.batch
    sequences = batch.sequences
    if sequences is None:
        return not_applicable(NO_SEQUENCES)
    prediction = next((p for p in batch.predictions if _time_axis(p, sequences) is not None), None)
    tokens = sequences.tokens.value
    length = tokens.shape[sequences.time_axis]
    if prediction is None or length < MIN_LENGTH:
        return not_applicable(NO_POSITIONS)
    base = _by_position(step.evaluated(prediction.key), prediction, sequences)
    scale = float(base.std()) or 1.0
    changes = []
    for position in changed_positions(length):
        moved = _moved(subject, sequences, prediction, base, position) / scale
        changes.append((position, moved.tolist()))
    within = _shift_within_model(subject, sequences, prediction)
    if within is None:
        return not_applicable("how the model shifts the labels that it is given is not known")
    shifts = [shift + within for shift in sequences.shifts]
    shift = 1 if 1 in shifts else shifts[0]
    reach = _reach(subject, sequences, prediction, base, scale)
    if reach is None:
        return not_applicable("the last call of the model is given other tokens than those that are labels")
    if reach == 0 and len(step.modules) == 1 and _is_of_single_tokens(step.modules[0], tokens):
        reach = 1  # as it was written
    return judge_positions(changes, shift, step.tolerance, reach)


class _Names(TorchFunctionMode):  # type: ignore[misc]
    """Collects the names of the functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.called.add(getattr(func, "__name__", "").strip("_"))
        return func(*args, **(kwargs or {}))


def _is_of_single_tokens(model: torch.nn.Module, tokens: torch.Tensor) -> bool:
    """Return whether a model calls no function that could connect positions: a table of following tokens."""
    names = _Names()
    with torch.no_grad(), names:
        model(tokens)
    return names.called <= _POINTWISE


def _shift_within_model(subject: CheckedStep, sequences: Sequences, prediction: Prediction) -> int | None:
    """Return by how many positions the model shifts labels that it is given; None: that is not known.

    If it does, the loss does not depend on the prediction at the last position, although that has a label.
    """
    if not sequences.is_shifted_by_model:
        return 0
    labels, axis = sequences.labels.value, sequences.time_axis
    repeated = subject.step.run(evaluates=True)
    made = repeated[prediction.key]
    if not made.requires_grad or labels.shape[axis] != _positions(prediction, sequences):
        return None
    gradient = torch.autograd.grad(repeated.loss, made, allow_unused=True)[0]
    is_labelled = bool((labels.select(axis, -1) != IGNORED).any())
    if gradient is None or not is_labelled:
        return None
    last = _by_position(gradient, prediction, sequences)[-1]
    return int(not bool((last != 0).any()))


def _positions(prediction: Prediction, sequences: Sequences) -> int:
    at = _time_axis(prediction, sequences)
    return prediction.group if at == -1 or at is None else int(prediction.value.shape[at])


def _time_axis(prediction: Prediction, sequences: Sequences) -> int | None:
    """Return the axis of positions of a prediction, -1 if they are flattened with the samples; None: it has none."""
    shape, axis = prediction.value.shape, sequences.time_axis
    length = sequences.tokens.value.shape[axis]
    if prediction.group > 1:
        return -1 if axis == 1 and prediction.group in (length, length - 1) else None
    fitting = [at for at in range(len(shape)) if shape[at] in (length, length - 1) and at != prediction.axis]
    if len(shape) < 2 or not fitting:
        return None
    return axis if axis in fitting else fitting[-1]


def _by_position(value: torch.Tensor, prediction: Prediction, sequences: Sequences) -> torch.Tensor:
    """Return the elements of a repeated prediction at each position, ``(positions, elements)``."""
    at = _time_axis(prediction, sequences)
    value = value.detach().double()
    if at == -1:
        value, at = value.reshape(-1, prediction.group, *value.shape[1:]), 1
    assert at is not None
    moved = value.movedim(at, 0)
    return moved.reshape(moved.shape[0], -1)


def _changed(sequences: Sequences, positions: list[int]) -> Values:
    """Return the tokens with those at some positions taken from other sequences, or other positions."""
    tokens, axis = sequences.tokens.value, sequences.time_axis
    changed = tokens.clone()
    other = tokens.roll(1, 1 - axis)
    for position in positions:
        here, there = changed.select(axis, position), other.select(axis, position)
        if torch.equal(here, there):
            there = tokens.select(axis, (position + 1) % tokens.shape[axis])
        here.copy_(there)
    return {sequences.tokens.key: changed}


def _moved(
    subject: CheckedStep, sequences: Sequences, prediction: Prediction, base: torch.Tensor, position: int
) -> torch.Tensor:
    """Return by how much the prediction at each position changes if the token at one does."""
    given = _changed(sequences, [position])
    after = subject.step.run(given, evaluates=True, until=prediction.key, gradients=False)[prediction.key]
    return (_by_position(after, prediction, sequences) - base).abs().amax(1)


def _reach(
    subject: CheckedStep, sequences: Sequences, prediction: Prediction, base: torch.Tensor, scale: float
) -> int | None:
    """Return how many positions back the last prediction depends on, 1 for any; None: not even on its own.

    A prediction that depends on no token is that of another call of the model, which is given other ones.
    """
    length = sequences.tokens.value.shape[sequences.time_axis]
    at = min(length, base.shape[0]) - 1

    def depends_on(positions: list[int]) -> bool:
        given = _changed(sequences, positions)
        after = subject.step.run(given, evaluates=True, until=prediction.key, gradients=False)[prediction.key]
        change = (_by_position(after, prediction, sequences) - base)[at].abs().max()
        return float(change) > subject.step.tolerance * scale

    if depends_on(list(range(at))):
        return 1
    return 0 if depends_on([at]) else None
