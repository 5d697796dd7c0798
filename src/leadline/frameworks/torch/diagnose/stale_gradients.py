"""Optimizer steps that start with the gradients of the previous step."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import torch

_CHECKED_ELEMENTS: Final = 64
"""Number of elements checked if versions are not conclusive; on the CPU only."""


class _LastGradient:
    """One parameter's gradient after an optimizer's step; it represents all of the optimizer's gradients."""

    __slots__ = ("consecutive_steps", "gradient", "is_renewed", "parameter", "thread", "version", "was_inspected")

    def __init__(self) -> None:
        self.consecutive_steps = 0
        self.thread = 0
        """Thread of the optimizer's step: gradients of other threads may be in use, and are not touched."""
        self.parameter: weakref.ref[torch.Tensor] | None = None
        self.gradient: weakref.ref[torch.Tensor] | None = None
        self.version = 0
        self.was_inspected = self.is_renewed = False

    def record(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the gradient after a step of the optimizer."""
        self.thread = threading.get_ident()
        held = (parameter for group in optimizer.param_groups for parameter in group["params"])
        parameter = next((candidate for candidate in held if candidate.grad is not None), None)
        gradient = parameter.grad if parameter is not None else None
        self.was_inspected = self.is_renewed = False
        if parameter is None or gradient is None:
            self.parameter = None
            return
        self.parameter, self.gradient = weakref.ref(parameter), weakref.ref(gradient)
        self.version = gradient._version

    def forget(self) -> None:
        """Forget the gradient: the next step is not inspected."""
        self.parameter = self.gradient = None

    def inspect(self, *, is_only_optimizer: bool) -> None:
        """Check at the start of a backward pass whether the gradient was reset."""
        if self.is_renewed or self.parameter is None or (self.was_inspected and is_only_optimizer):
            return
        gradient = self._gradient()
        if gradient is None:
            self.is_renewed = True
        elif gradient._version != self.version:
            self.is_renewed = is_only_optimizer or _may_be_zero(gradient)
            self.version = gradient._version
        self.was_inspected = True

    def count(self) -> int:
        """Return how many consecutive steps, including the one about to start, began with stale gradients."""
        is_stale = self.was_inspected and not self.is_renewed and self._gradient() is not None
        self.consecutive_steps = self.consecutive_steps + 1 if is_stale else 0
        return self.consecutive_steps

    def _gradient(self) -> torch.Tensor | None:
        """Return the recorded gradient if it is still the parameter's."""
        parameter = self.parameter() if self.parameter is not None else None
        gradient = parameter.grad if parameter is not None else None
        return gradient if gradient is not None and self.gradient is not None and gradient is self.gradient() else None


class StaleGradients:
    """Counts each optimizer's consecutive steps that began with the gradients of the previous step.

    Setting gradients to None removes the tensor; zeroing in place and accumulation write to it and advance its version.
    So identity and version at the start of the first backward pass show whether gradients were reset, without reading
    their values. With several optimizers the first backward pass may belong to another one: then the gradient's values
    are checked, if that needs no synchronization.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, _LastGradient] = weakref.WeakKeyDictionary()
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def before_backward(self) -> None:
        """Handle the start of a backward pass."""
        thread = threading.get_ident()
        gradients = [gradient for gradient in list(self._known.values()) if gradient.thread == thread]
        for gradient in gradients:
            gradient.inspect(is_only_optimizer=len(gradients) == 1)

    def before_update(self, optimizer: torch.optim.Optimizer) -> int:
        """Handle the start of an optimizer step; return the number of consecutive steps that began stale."""
        last = self._known.get(optimizer)
        if last is not None:
            self._counts[optimizer] = last.count()
        return self._counts.get(optimizer, 0)

    def after_update(self, optimizer: torch.optim.Optimizer, *, is_inspected_next: bool) -> None:
        """Handle the end of an optimizer step.

        Args:
            is_inspected_next: Whether the start of the next step is inspected.
        """
        last = self._known.get(optimizer)
        if last is None:
            last = self._known[optimizer] = _LastGradient()
        if is_inspected_next:
            last.record(optimizer)
        else:
            last.forget()

    def consecutive_steps(self, optimizer: torch.optim.Optimizer) -> int | None:
        """Return the number of consecutive steps, up to the latest inspected, that began stale; None before that."""
        return self._counts.get(optimizer)


def _may_be_zero(gradient: torch.Tensor) -> bool:
    """Whether the gradient may have been zeroed; always True on an accelerator, where checking would synchronize."""
    if gradient.device.type != "cpu" or gradient.layout is not torch.strided or type(gradient) is not torch.Tensor:
        return True
    return not bool(gradient.detach().reshape(-1)[:_CHECKED_ELEMENTS].any())
