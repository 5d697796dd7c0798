"""The probe of what a model is given."""

from __future__ import annotations

import torch

from leadline.frameworks.check.model_inputs import Given, judge_inputs
from leadline.frameworks.check.outcome import Tested
from leadline.frameworks.torch.check.batch import Input
from leadline.frameworks.torch.check.loss_calls import loss_calls
from leadline.frameworks.torch.check.outcome import CheckedStep


def model_inputs(subject: CheckedStep) -> Tested:
    """Look at the inputs of models: finite, not constant, not repeated; and show the first samples."""
    batch = subject.batch
    inputs, labels = list(map(_given, batch.inputs)), list(map(_given, batch.labels))
    return judge_inputs(inputs, labels, batch.size, may_repeat=not loss_calls(subject.step.calls))


def _given(item: Input) -> Given:
    value = item.value.detach()
    value = value.to_dense() if value.layout != torch.strided else value
    is_reduced = value.is_floating_point() and value.element_size() < 4
    kind = str(item.value.dtype).removeprefix("torch.")
    return Given(item.name, (value.float() if is_reduced else value).numpy(), kind, item.axis, item.group)
