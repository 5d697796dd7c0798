"""The probe of samples that influence one another, or whose place in the batch has an influence."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from leadline.frameworks.check.outcome import Tested, not_applicable
from leadline.frameworks.check.samples import (
    ALL_EQUAL,
    COMPARES_ALL,
    NO_SAMPLES,
    NOT_FINITE,
    OF_PLACES,
    SHOWN,
    changes_of_rows,
    exchanged_pairs,
    other_places,
    places_matter,
    samples_apart,
    samples_mixed,
)
from leadline.frameworks.torch.check.batch import Input, Prediction
from leadline.frameworks.torch.check.carried_states import carried_state
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.split_heads import scrambled_positions
from leadline.frameworks.torch.check.step_copy import StepCopy, Values
from leadline.frameworks.torch.check.step_tape import PartState, tensors_in
from leadline.records.json_object import JsonObject

_OTHER_SEED: Final = 21


def mixed_samples(subject: CheckedStep) -> Tested:
    """In evaluation mode, replace one sample by another one: the predictions of all others must stay the same.

    Then let all samples change their places: their predictions must move with them. And no view may mix positions, nor
    a recurrent layer begin with the state of another batch.
    """
    apart = _mixed_samples(subject)
    if apart.outcome == "failed":
        return apart
    return scrambled_positions(subject) or carried_state(subject) or apart


def _mixed_samples(subject: CheckedStep) -> Tested:
    step, batch = subject.step, subject.batch
    if batch.size < 2 or not batch.inputs or not batch.predictions:
        return not_applicable(NO_SAMPLES)
    if (graph := _graph(batch.inputs, batch.size)) is not None:
        return not_applicable(f"{graph.name} seems to connect the samples, as edges do in a graph")
    if (shared := next((item for item in batch.inputs if item.axis is None and _is_large(item)), None)) is not None:
        return not_applicable(f"{shared.name} belongs to no sample")
    prediction = next((p for p in batch.predictions if p.value.shape != (batch.size, batch.size)), None)
    if prediction is None:
        return not_applicable(COMPARES_ALL)
    base = prediction.rows(step.evaluated(prediction.key))
    scale = float(base.std()) or 1.0
    size = base.shape[0]
    order = torch.arange(size)
    rows_of_changes: dict[int, list[float]] = {}
    worst = 0.0
    pair = (0, 0)
    changed: list[int] = []
    for source, others in exchanged_pairs(size):
        for other in others:
            chosen = order.clone()
            chosen[source] = other
            given = batch.exchanged(chosen)
            if all(torch.equal(given[item.key], item.value) for item in batch.inputs if item.key in given):
                continue
            changed.append(source)
            rows = prediction.rows(
                step.run(given, evaluates=True, until=prediction.key, gradients=False)[prediction.key]
            )
            moved = (rows - base).abs().amax(1) / scale
            rows_of_changes[source] = moved[:SHOWN].tolist()
            moved[source] = 0.0
            if not torch.isfinite(moved).all():
                return not_applicable(NOT_FINITE)
            if float(moved.max()) > worst:
                worst, pair = float(moved.max()), (source, int(moved.argmax()))
                culprit = given
            break
    if not changed:
        return not_applicable(ALL_EQUAL)
    evidence = changes_of_rows(rows_of_changes, worst)
    if worst > step.tolerance:
        where = _first_mixing_module(subject, culprit, pair[0], size)
        return samples_mixed(pair, worst, where, mode="evaluation", **evidence)
    return _of_places(subject, prediction, evidence) or samples_apart(len(set(changed)), size, **evidence)


def _of_places(subject: CheckedStep, prediction: Prediction, evidence: JsonObject) -> Tested | None:
    """Return the failure if samples that change their places get other predictions."""
    size = subject.batch.size
    chosen = torch.tensor(other_places(size))
    worst = _change_by_place(subject, prediction, chosen)
    if worst <= OF_PLACES * subject.step.tolerance:
        return None
    given = subject.batch.exchanged(chosen, labels=True)
    where = _first_module(subject, given, size, chosen, bound=OF_PLACES)
    return places_matter(worst, where, mode="evaluation", **evidence)


def _change_by_place(subject: CheckedStep, prediction: Prediction, chosen: torch.Tensor) -> float:
    """Return by how much predictions change if their samples change places, as a share of their size.

    Where places may count on purpose it is 0: a model that draws random numbers, or keeps values of each sample.

    Args:
        chosen: Which sample takes each place, ``(samples,)``.
    """
    step, batch = subject.step, subject.batch
    base = prediction.rows(step.evaluated(prediction.key))
    given = [*batch.inputs, *(item for item in batch.labels if item.is_model_input)]
    if any(item.axis is None and item.value.numel() > 1 for item in given):
        return 0.0
    if base.shape[0] != batch.size or _keeps_samples(step, batch.size):
        return 0.0
    options: Any = {"evaluates": True, "until": prediction.key, "gradients": False}
    drawn = prediction.rows(step.run(seed=_OTHER_SEED, **options)[prediction.key])
    if not torch.equal(drawn, base):
        return 0.0
    moved = prediction.rows(step.run(batch.exchanged(chosen, labels=True), **options)[prediction.key])
    scale = max(float(base.std()), float(base.abs().mean())) or 1.0
    worst = float((moved - base[chosen]).abs().max()) / scale
    return worst if math.isfinite(worst) else 0.0


def _keeps_samples(step: StepCopy, size: int) -> bool:
    """Whether a model may keep values of each sample from step to step, as stateful recurrent ones do."""
    states = (PartState.of(part) for model in step.modules for part in model.modules())
    kept = (tensor for state in states for tensor in tensors_in((state.attributes, state.buffers)))
    return any(size in tensor.shape for tensor in kept)


def _graph(inputs: list[Input], size: int) -> Input | None:
    for item in inputs:
        value = item.value
        is_edges = not value.is_floating_point() and value.ndim == 2 and value.shape[0] == 2 and size != 2
        is_square = value.ndim == 2 and value.shape[0] == value.shape[1] == size and _connects(value)
        is_square = is_square and len(inputs) > 1  # alone, it has nothing to connect
        if value.layout != torch.strided or is_edges or is_square:
            return item
    return None


def _connects(value: torch.Tensor) -> bool:
    """Whether a matrix may tell which samples are connected, and how strongly."""
    is_binary = value.dtype == torch.bool or bool(((value == 0) | (value == 1)).all())
    return (value.is_floating_point() or is_binary) and bool((value != value.flatten()[0]).any())


def _is_large(item: Input) -> bool:
    return bool(item.value.numel() > 1 and item.value.is_floating_point())


def _first_mixing_module(subject: CheckedStep, given: Values, source: int, size: int) -> str:
    """Return the first module in whose output other samples change than the one that was replaced."""
    others = torch.arange(size) != source
    return _first_module(subject, given, size, torch.arange(size), others)


def _first_module(
    subject: CheckedStep,
    given: Values,
    size: int,
    places: torch.Tensor,
    compared: torch.Tensor | slice = slice(None),
    bound: float = 1.0,
) -> str:
    """Return the first module, in the order in which modules return, whose output for other inputs is another one.

    Args:
        places: Which sample of the step is at each place of the other inputs, ``(samples,)``.
        compared: The places to look at.
        bound: Times the tolerance of the step, below which a difference is rounding.
    """
    before = _module_outputs(subject, {}, size)
    after = _module_outputs(subject, given, size)
    for (name, first), (other, second) in zip(before, after, strict=False):
        if name != other or first.shape != second.shape:
            return ""
        moved = (first[places] - second).abs().reshape(size, -1).amax(1)[compared]
        if float(moved.max()) > bound * subject.step.tolerance * (float(first.std()) or 1.0):
            return name
    return ""


def _module_outputs(subject: CheckedStep, given: Any, size: int) -> list[tuple[str, torch.Tensor]]:
    outputs: list[tuple[str, torch.Tensor]] = []
    handles = []

    def keep(name: str) -> Any:
        def hook(module: torch.nn.Module, args: Any, output: Any) -> None:
            value = output[0] if isinstance(output, (tuple, list)) and output else output
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim:
                if value.shape[0] == size:
                    outputs.append((name, value.detach().double().clone()))
                elif value.ndim > 1 and value.shape[1] == size and value.shape[0] != size:
                    outputs.append((name, value.detach().double().movedim(1, 0).contiguous()))

        return hook

    for name, module in subject.step.named_parts():
        kind = type(module).__name__
        label = f"{name} ({kind})" if name and name != kind else kind
        handles.append(module.register_forward_hook(keep(label)))
    try:
        subject.step.run(given, evaluates=True, until=subject.batch.predictions[0].key, gradients=False)
    finally:
        for handle in handles:
            handle.remove()
    return outputs
