"""Loss calls within forward passes: their names, and the losses of eval steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.torch.capture.device_copy import DeviceScalar
from leadline.frameworks.torch.capture.step_passes import StepPasses
from leadline.frameworks.torch.naming.loss_calls import LossCalls, eval_mean, numbers_of
from leadline.frameworks.torch.naming.model_names import unwrap

Captured = Sequence[tuple[str, torch.Tensor]]
"""Outputs with their names."""


class ForwardLosses:
    """Collects the loss calls of a train step, and records those of an eval step.

    Args:
        on_loss_without_gradients: Called with each loss that is one number and was computed without gradients.
    """

    def __init__(
        self, callbacks: StepCallbacks, passes: StepPasses, on_loss_without_gradients: Callable[[], None]
    ) -> None:
        self.calls = LossCalls()
        self._evaluation, self._passes = callbacks.evaluation, passes
        self._names = callbacks.facts.of("names of losses are")
        self._evaluated = callbacks.facts.of("losses of evaluation are", is_vital=True)
        self._checks = callbacks.facts.of("checks of the training loop are")
        self._on_loss_without_gradients = on_loss_without_gradients

    def add(self, captured: Captured, args: tuple[Any, ...], kwargs: Mapping[str, Any], reduction: Any) -> None:
        """Add a loss call.

        Args:
            captured: Its outputs.
            args, kwargs: Its arguments.
            reduction: How it combines the losses of samples.
        """
        target = args[1] if len(args) > 1 else kwargs.get("target")
        for name, output in captured:
            self._names.call(self.calls.add, name, output, target)
            self._evaluated.call(self._record, name, output, target, reduction)
            self._note_evaluation(output)

    def add_own(self, called: torch.nn.Module, captured: Captured, output: Any, *, is_trained: bool) -> None:
        """Add the loss that a model or criterion returns: the number of its output that backward is called on.

        Args:
            is_trained: Whether an optimizer updates the model.
        """
        self._evaluated.call(self._add_own, called, captured, output, is_trained=is_trained)

    def _record(self, name: str, output: torch.Tensor, target: Any, reduction: Any) -> None:
        if self._passes.is_of_eval(output):
            self._report(name, eval_mean(output, target, str(reduction)))

    def _add_own(self, called: torch.nn.Module, captured: Captured, output: Any, *, is_trained: bool) -> None:
        model, names = unwrap(called), {id(tensor): name for name, tensor in captured}
        numbers = list(numbers_of(output))
        if torch.is_grad_enabled() and all(id(number) in names for _, number in numbers):
            self.calls.add_called(model)
        for place, number in numbers:
            if id(number) in names:
                self.calls.add_output(model, place, names[id(number)], number)
            own = self.calls.own_name(model, place)
            is_loss = number.dim() == 0 and (own is not None or (is_trained and self.calls.may_train_by(model, place)))
            if is_loss:
                self._note_evaluation(number)
            if is_loss and self._passes.is_of_eval(number):
                self._report(own, eval_mean(number, None, "mean"))

    def _note_evaluation(self, loss: torch.Tensor) -> None:
        if loss.numel() == 1 and not torch.is_grad_enabled():
            self._checks.call(self._on_loss_without_gradients)

    def _report(self, name: str | None, value: DeviceScalar | float | None) -> None:
        if value is not None:
            self._evaluation.record_loss(name, value)
