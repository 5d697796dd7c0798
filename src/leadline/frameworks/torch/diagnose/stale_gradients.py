"""Whether an optimizer's step begins with the gradients that the step before left: looked at, never read."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import torch

_LOOKED_AT: Final = 64
"""Elements that are looked at where versions alone do not tell; on the processor only."""


class _Left:
    """One parameter's gradient as an optimizer's step left it; it stands for all of the optimizer's."""

    __slots__ = ("gradient", "has_begun", "in_a_row", "is_renewed", "parameter", "thread", "version")

    def __init__(self) -> None:
        self.in_a_row = 0
        self.thread = 0
        """Where the optimizer stepped: another thread's gradients may be in the making, and are not touched."""
        self.parameter: weakref.ref[torch.Tensor] | None = None
        self.gradient: weakref.ref[torch.Tensor] | None = None
        self.version = 0
        self.has_begun = self.is_renewed = False

    def leave(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer has stepped."""
        self.thread = threading.get_ident()
        held = (parameter for group in optimizer.param_groups for parameter in group["params"])
        parameter = next((each for each in held if each.grad is not None), None)
        gradient = parameter.grad if parameter is not None else None
        self.has_begun = self.is_renewed = False
        if parameter is None or gradient is None:
            self.parameter = None
            return
        self.parameter, self.gradient = weakref.ref(parameter), weakref.ref(gradient)
        self.version = gradient._version

    def look(self, *, is_alone: bool) -> None:
        """A backward pass begins."""
        if self.is_renewed or self.parameter is None or (self.has_begun and is_alone):
            return
        gradient = self._gradient()
        if gradient is None:
            self.is_renewed = True
        elif gradient._version != self.version:
            self.is_renewed = is_alone or _may_be_zero(gradient)
            self.version = gradient._version
        self.has_begun = True

    def count(self) -> int:
        """The optimizer is about to step: how many steps in a row began with old gradients, this one among them."""
        is_left = self.has_begun and not self.is_renewed and self._gradient() is not None
        self.in_a_row = self.in_a_row + 1 if is_left else 0
        return self.in_a_row

    def _gradient(self) -> torch.Tensor | None:
        """The gradient that was left, where it is still the parameter's."""
        parameter = self.parameter() if self.parameter is not None else None
        gradient = parameter.grad if parameter is not None else None
        return gradient if gradient is not None and self.gradient is not None and gradient is self.gradient() else None


class StaleGradients:
    """Counts, for each optimizer, its steps in a row that began with the gradients of the step before.

    Setting gradients to None takes the tensor away; setting them to zero in place, and accumulating, write to it and
    advance its version. So identity and version tell at the start of the first backward pass whether somebody had
    renewed them, without a look at the numbers. With several optimizers the first backward pass may be another's: what
    was written then is looked at, where that costs no synchronization.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, _Left] = weakref.WeakKeyDictionary()
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def at_backward(self) -> None:
        """A backward pass begins."""
        thread = threading.get_ident()
        own = [each for each in list(self._known.values()) if each.thread == thread]
        for each in own:
            each.look(is_alone=len(own) == 1)

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step."""
        known = self._known.get(optimizer)
        if known is not None:
            self._counts[optimizer] = known.count()

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """It has."""
        known = self._known.get(optimizer)
        if known is None:
            known = self._known[optimizer] = _Left()
        known.leave(optimizer)

    def in_a_row(self, optimizer: torch.optim.Optimizer) -> int | None:
        """How many steps in a row, up to the latest, began with old gradients; None before the second."""
        return self._counts.get(optimizer)


def _may_be_zero(gradient: torch.Tensor) -> bool:
    """Whether what was written may have been zeros; on an accelerator nobody asks."""
    if gradient.device.type != "cpu" or gradient.layout is not torch.strided or type(gradient) is not torch.Tensor:
        return True
    return not bool(gradient.detach().reshape(-1)[:_LOOKED_AT].any())
