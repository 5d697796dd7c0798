"""The probe of samples that influence one another."""

from __future__ import annotations

from typing import Any

import torch

from leadline.frameworks.check.outcome import Tested, not_applicable
from leadline.frameworks.check.samples import (
    ALL_EQUAL,
    COMPARES_ALL,
    NO_SAMPLES,
    NOT_FINITE,
    SHOWN,
    changes_of_rows,
    exchanged_pairs,
    samples_apart,
    samples_mixed,
)
from leadline.frameworks.torch.check.batch import Input
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_copy import Values


def mixed_samples(subject: CheckedStep) -> Tested:
    """In evaluation mode, replace one sample by another one: the predictions of all others must stay the same."""
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
    if worst <= step.tolerance:
        return samples_apart(len(set(changed)), size, **evidence)
    where = _first_mixing_module(subject, culprit, pair[0], size)
    return samples_mixed(pair, worst, where, mode="evaluation", **evidence)


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
    """Return the first module, in the order in which modules return, in whose output other samples change."""
    before = _module_outputs(subject, {}, size)
    after = _module_outputs(subject, given, size)
    for (name, first), (other, second) in zip(before, after, strict=False):
        if name != other or first.shape != second.shape:
            return ""
        moved = (first - second).abs().reshape(size, -1).amax(1)
        moved[source] = 0.0
        if float(moved.max()) > subject.step.tolerance * (float(first.std()) or 1.0):
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
