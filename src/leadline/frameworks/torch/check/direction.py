"""The probe of losses that ask for something else than the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from leadline.frameworks.check.learning import UNUSED_LOSS
from leadline.frameworks.check.outcome import Tested, failed, not_applicable, passed
from leadline.frameworks.check.samples import (
    DECREASE,
    DIRECTION_ADVICE,
    IGNORED,
    NO_DESCENT,
    NO_LABELS,
    NO_PREDICTION,
    PERMUTATIONS,
    QUARTERINGS,
    SHIFTS,
    labels_shifted,
    moves_away,
    moves_nearer,
)
from leadline.frameworks.torch.check.batch import Input, Prediction
from leadline.frameworks.torch.check.copied_targets import noisy_target
from leadline.frameworks.torch.check.loss_calls import loss_calls, target_of, values_of
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_copy import Repeated, StepCopy, differentiates
from leadline.frameworks.torch.check.step_tape import RecordedCall

_ASYMMETRIC: Final = frozenset(
    ("binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "kl_div", "poisson_nll_loss")
)
_LEAST_RISE: Final = 0.1
"""Of the decrease of the loss, by which a standard loss must rise."""


def loss_direction(subject: CheckedStep) -> Tested:
    """Lower the loss by a small step: predictions must come nearer to the labels. Then try other labels."""
    step = subject.step
    calls = loss_calls(step.calls)
    swapped = next((call for call in calls if _is_swapped(call)), None)
    if swapped is not None:
        return failed(
            f"{swapped.function.__name__} is given the prediction as target, and the label as input",
            "give it the prediction first, and the label second",
        )
    if (wrong := noisy_target(step, calls) or _shifted_labels(subject)) is not None:
        return wrong
    if not calls and not subject.batch.labels:
        return not_applicable(NO_LABELS)
    before, gradients = step.base, step.own_gradients
    if not gradients:
        return not_applicable(UNUSED_LOSS)
    with step.other_weights():
        after = _lowered(step, gradients, float(before.loss.detach()))
    if after is None:
        return not_applicable(NO_DESCENT)
    if calls:
        return _judged_by_losses(step, calls, before, after)
    return _judged_by_labels(subject, before, after)


def _lowered(step: StepCopy, gradients: Sequence[torch.Tensor | None], start: float) -> Repeated | None:
    """Make a step along the gradient that lowers the loss a little; return the step repeated after it."""
    square = sum(float((g.double() ** 2).sum()) for g in gradients if g is not None)
    if not square > 0 or not abs(start) > 0:
        return None
    rate = DECREASE * abs(start) / square
    origin = [parameter.detach().clone() for parameter in step.parameters]
    for _ in range(QUARTERINGS):
        with torch.no_grad():
            for parameter, value, gradient in zip(step.parameters, origin, gradients, strict=True):
                parameter.copy_(value if gradient is None else value - rate * gradient)
        after = step.run(gradients=False)
        if float(after.loss) < start:
            return after
        rate /= 4
    return None


def _judged_by_losses(step: StepCopy, calls: list[RecordedCall], before: Repeated, after: Repeated) -> Tested:
    """Compare the decrease of the loss with that of PyTorch's losses in it; one of several terms may well rise."""
    decrease = float(before.loss.detach()) - float(after.loss)
    rises = [last - first for first, last in zip(values_of(calls, before), values_of(calls, after), strict=True)]
    names = ", ".join(dict.fromkeys(call.function.__name__ for call in calls))
    if min(rises) > _LEAST_RISE * decrease and not _asks_for(step, calls):
        return failed(
            f"a step that lowers the loss by {decrease:.2g} raises {names} by {min(rises):.2g}: the sign is wrong",
            DIRECTION_ADVICE,
            decrease=decrease,
            rise=min(rises),
        )
    return passed(f"a small step lowers the loss by {decrease:.2g}, and {names} by {-min(rises):.2g}")


def _asks_for(step: StepCopy, calls: list[RecordedCall]) -> bool:
    """Return whether the loss falls with one of PyTorch's losses in it, all else being equal."""
    repeated = step.run()
    outputs = [output for call in calls if (output := repeated[id(call.output)]).requires_grad]
    if not outputs:
        return False
    slopes = torch.autograd.grad(repeated.loss, outputs, allow_unused=True)
    return any(slope is not None and float(slope.sum()) > 0 for slope in slopes)


def _judged_by_labels(subject: CheckedStep, before: Repeated, after: Repeated) -> Tested:
    """See whether the predictions have come nearer to the labels."""
    decrease = float(before.loss.detach()) - float(after.loss)
    label, prediction = _labelled(subject)
    if label is None or prediction is None:
        return not_applicable(NO_PREDICTION)
    pairs = zip(
        _nearness(before[prediction.key].detach(), label),
        _nearness(after[prediction.key].detach(), label),
        strict=True,
    )
    rise, first, last = max((last - first, first, last) for first, last in pairs)
    if rise < -1e-9 * max(abs(first), 1.0):
        return moves_away(decrease, first, last)
    return moves_nearer(decrease)


def _labelled(subject: CheckedStep) -> tuple[Input | None, Prediction | None]:
    """Return the one label that can be compared with a prediction, and the prediction."""
    for prediction in subject.batch.predictions:
        fitting = [
            item for item in subject.batch.labels if _varies(item.value) and _nearness(prediction.value.detach(), item)
        ]
        if len(fitting) == 1:
            others = [
                item for item in subject.batch.labels if item is not fitting[0] and item.value.is_floating_point()
            ]
            is_weighted = any(item.value.numel() == subject.batch.size for item in others)
            return (
                (None, None) if is_weighted and not fitting[0].value.is_floating_point() else (fitting[0], prediction)
            )
    return None, None


def _varies(value: torch.Tensor) -> bool:
    """Whether elements differ: a sum that starts with zeros is no label."""
    return value.numel() > 1 and bool((value != value.flatten()[0]).any())


def _nearness(prediction: torch.Tensor, label: Input) -> list[float]:
    """Return how near predictions are to labels, the higher the nearer; nothing if they cannot be compared.

    A model that is given the labels of sequences may shift them itself: then there are two numbers, of which the first
    is without a shift.
    """
    value = label.value
    if value.is_floating_point():
        if value.numel() != prediction.numel():
            return []
        flat, target = prediction.double().flatten(), value.double().flatten()
        if bool(((target == 0) | (target == 1)).all()) and target.unique().numel() == 2:
            return [float(flat[target == 1].mean() - flat[target == 0].mean())]
        return [-float(((flat - target) ** 2).mean())]
    if value.ndim == prediction.ndim and value.ndim > 1 and value.shape[-1] == 1:
        value = value.squeeze(-1)
    if prediction.ndim != value.ndim + 1 or prediction.shape[:-1] != value.shape:
        return []
    pairs = [(prediction.double(), value)]
    if label.is_model_input and value.ndim == 2:
        pairs.append((prediction[:, :-1].double(), value[:, 1:]))
    found = [_log_probability(logits, target) for logits, target in pairs]
    return [number for number in found if number is not None]


def _log_probability(logits: torch.Tensor, target: torch.Tensor) -> float | None:
    """Return the mean logarithm of the labels' probabilities; None: there are no labels."""
    is_real = (target != IGNORED) & (target >= 0) & (target < logits.shape[-1])
    chosen = logits.log_softmax(-1).gather(-1, target.clamp(0, logits.shape[-1] - 1).unsqueeze(-1)).squeeze(-1)
    return float(chosen[is_real].mean()) if bool(is_real.any()) else None


def _is_swapped(call: RecordedCall) -> bool:
    """Whether gradients flow through the target of a loss that is not symmetric, and not through its input."""
    target = target_of(call)
    given = call.args[0] if call.args else call.kwargs.get("input")
    if target is None or not isinstance(given, torch.Tensor) or call.function.__name__ not in _ASYMMETRIC:
        return False
    return target.requires_grad and not given.requires_grad


def _returned_by_models(subject: CheckedStep) -> dict[int, torch.Tensor]:
    """Return what models return, with which a step need not call them.

    That is nothing if it is changed in place afterwards, or differentiated by what the models are given.
    """
    step = subject.step
    if differentiates(step.calls):
        return {}
    made = {key for call in subject.batch.model_calls for key in call.produced}
    changed = {key for call in step.calls if not call.is_model for key in call.produced}
    return {} if made & changed else {key: step.base[key] for key in made if key in step.base}


def _shifted_labels(subject: CheckedStep) -> Tested | None:
    """Return the failure if labels fit the inputs of the samples beside theirs better than their own."""
    step, batch = subject.step, subject.batch
    labels = [item for item in batch.labels if item.axis is not None]
    if batch.size < 4 or len(labels) != 1 or not batch.inputs:
        return None
    label = labels[0]
    order = torch.arange(batch.size)

    predicted = {} if label.is_model_input else _returned_by_models(subject)  # which other labels leave as it is

    def loss_with(chosen: torch.Tensor) -> float:
        return float(step.run({**predicted, label.key: label.with_samples(chosen)}, gradients=False).loss)

    def others() -> list[float]:
        generator = torch.Generator().manual_seed(5)
        return [loss_with(torch.randperm(batch.size, generator=generator)) for _ in range(PERMUTATIONS)]

    return labels_shifted(float(step.base.loss), others, {shift: loss_with(order.roll(shift)) for shift in SHIFTS})
