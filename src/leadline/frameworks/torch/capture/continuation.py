"""Whether an optimizer goes on with the training of the one before it."""

from __future__ import annotations

import weakref
from typing import Any

import torch

_Versions = tuple[int, ...]


class LatestOptimizer:
    """The optimizer whose steps are those of the training, and what its last step has left.

    Another one goes on with its training if it is of the same class and updates the same parameters as they were left:
    some scripts build their optimizer again in every epoch. Resetting or loading weights in between ends a training.
    """

    def __init__(self) -> None:
        self._optimizer: weakref.ref[Any] | None = None
        self._class: type | None = None
        self._parameters: list[weakref.ref[torch.Tensor]] = []
        self._ends: list[weakref.ref[torch.Tensor]] = []
        """The first and the last parameter, as far as their versions are tracked."""
        self._left: _Versions = ()
        """The versions of these after the last step."""
        self._found: _Versions = ()
        """Their versions before the last step of another optimizer."""

    def before_update(self, optimizer: Any) -> None:
        """Notice a step of any optimizer before it updates its parameters."""
        if self._optimizer is not None and self._optimizer() is not optimizer:
            self._found = self._versions()

    def after_update(self, optimizer: Any) -> None:
        """Notice that an optimizer has updated its parameters; called at every step."""
        if self._optimizer is not None and self._optimizer() is optimizer:
            self._left = self._versions()

    def is_continued_by(self, optimizer: Any) -> bool:
        """Return whether an optimizer goes on with the training, in its first step that counts; follow it from now."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        is_same = self._class is type(optimizer) and len(parameters) == len(self._parameters) > 0
        is_continued = (
            is_same
            and self._found == self._left
            and all(reference() is parameter for reference, parameter in zip(self._parameters, parameters, strict=True))
        )
        self._optimizer, self._class = weakref.ref(optimizer), type(optimizer)
        self._parameters = [weakref.ref(parameter) for parameter in parameters]
        ends = (*parameters[:1], *parameters[-1:])
        self._ends = [weakref.ref(parameter) for parameter in ends if not parameter.is_inference()]
        self._left = self._versions()
        return is_continued

    def _versions(self) -> _Versions:
        ends = (reference() for reference in self._ends)
        return tuple(parameter._version for parameter in ends if parameter is not None)
