"""The probe of what a model is given."""

from __future__ import annotations

from typing import Final

import torch

from leadline.frameworks.check.model_inputs import Given, judge_inputs
from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.check.batch import Input
from leadline.frameworks.torch.check.loss_calls import loss_calls, targets_of
from leadline.frameworks.torch.check.mirrored_images import mirrored_images
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.shared_windows import shared_windows

_LEAST_ELEMENTS: Final = 8


def model_inputs(subject: CheckedStep) -> Tested:
    """Look at the inputs of models: finite, not constant, not repeated; and show the first samples."""
    batch = subject.batch
    if (found := _rounded_to_one_number(subject)) is not None:
        return found
    calls, answers = loss_calls(subject.step.calls), targets_of(subject.step)
    inputs = list(map(_given, batch.inputs))
    labels = [
        _given(item)._replace(is_answer=item.value.is_floating_point() or item.key in answers) for item in batch.labels
    ]
    tested = judge_inputs(inputs, labels, batch.size, may_repeat=not calls)
    return tested if tested.outcome == "failed" else mirrored_images() or shared_windows() or tested


def _rounded_to_one_number(subject: CheckedStep) -> Tested | None:
    """Return the failure if whole numbers are all equal because fractions that vary were converted to them."""
    tape = subject.step.tape
    for item in subject.batch.inputs:
        value = item.value
        is_constant = value.numel() >= _LEAST_ELEMENTS and bool((value == value.flatten()[0]).all())
        if value.is_floating_point() or value.dtype == torch.bool or not is_constant:
            continue
        call = next((call for call in reversed(tape.calls) if item.key in call.produced), None)
        for key in call.consumed if call is not None else ():
            source = tape.inputs.get(key, tape.tensors[key])
            if source.is_floating_point() and source.numel() == value.numel() and source.min() < source.max():
                return failed(
                    f"{item.name} is {int(value.flatten()[0])} everywhere: it was converted to whole numbers from ones "
                    f"between {float(source.min()):.4g} and {float(source.max()):.4g}",
                    "give it the whole numbers themselves, neither divided nor scaled",
                )
    return None


def _given(item: Input) -> Given:
    value = item.value.detach()
    value = value.to_dense() if value.layout != torch.strided else value
    is_reduced = value.is_floating_point() and value.element_size() < 4
    kind = str(item.value.dtype).removeprefix("torch.")
    return Given(item.name, (value.float() if is_reduced else value).numpy(), kind, item.axis, item.group)
