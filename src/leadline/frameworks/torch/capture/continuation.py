"""Whether an optimizer goes on with the training of the one before it."""

from __future__ import annotations

import weakref
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.step_count import keeps_state

_Versions = tuple[int, ...]
_Gradient = tuple["weakref.ref[torch.Tensor]", "weakref.ref[torch.Tensor]", int]
_MEMORY: Final = 1000
"""Steps of an optimizer beyond which a new one soon has as much of a state: Adam's averages go back that far."""
_OTHER_PHASE: Final = 2.0
"""A learning rate that changes by this factor belongs to another phase of a training."""


class LatestOptimizer:
    """The optimizer whose steps are those of the training, and what its last step has left.

    Another one goes on with its training if it is of the same class and updates the same parameters as they were left:
    some scripts build their optimizer again in every epoch. Resetting or loading weights in between ends a training.

    Attributes:
        is_left: Whether, at the last step of another optimizer, the training was over: something was computed since
            its last step, and the other optimizer was made since then, or updates its first and its last parameter,
            too, or no gradient had reached its first one.
        made_anew: How many optimizers in a row went on with the training of the one before, which had made less than a
            thousand steps, with the same settings but for a learning rate that a schedule may change, and without its
            state.
    """

    def __init__(self) -> None:
        self._optimizer: weakref.ref[Any] | None = None
        self._class: type | None = None
        self._settings: dict[str, object] = {}
        self._steps = 0
        """The steps of this optimizer."""
        self.is_left = False
        self.made_anew = 0
        self._parameters: list[weakref.ref[torch.Tensor]] = []
        self._ends: list[weakref.ref[torch.Tensor]] = []
        """The first and the last parameter, as far as their versions are tracked."""
        self._left: _Versions = ()
        """The versions of these after the last step."""
        self._gradient: _Gradient | None = None
        """The first of these with a gradient then, with that gradient and its version."""
        self._computed = 0
        """How much had been computed with gradients then, by autograd's count."""
        self._found: _Versions = ()
        """Their versions before the last step of another optimizer."""
        self._is_empty = False
        """Whether that one had no state then."""
        self._made: list[weakref.ref[Any]] = []
        """The optimizers that were made since the last step."""

    def note_made(self, optimizer: Any) -> None:
        """Notice that an optimizer was made."""
        self._made.append(weakref.ref(optimizer))

    def before_update(self, optimizer: Any) -> None:
        """Notice a step of any optimizer before it updates its parameters."""
        if self._optimizer is not None and self._optimizer() is not optimizer:
            self._found, self._is_empty = self._versions(), not optimizer.state
            is_computed = torch.autograd._get_sequence_nr() != self._computed
            is_made_since = any(reference() is optimizer for reference in self._made)
            self.is_left = is_computed and (
                is_made_since or self._is_included(optimizer) or not self._has_new_gradients()
            )

    def after_update(self, optimizer: Any) -> None:
        """Notice that an optimizer has updated its parameters; called at every step."""
        if self._optimizer is not None and self._optimizer() is optimizer:
            self._left, self._gradient = self._versions(), self._first_gradient()
            self._computed = torch.autograd._get_sequence_nr()
            self._steps += 1
            if self._made:
                self._made = []

    def is_continued_by(self, optimizer: Any) -> bool:
        """Return whether an optimizer goes on with the training, in its first step that counts; follow it from now."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        is_continued = self._found == self._left and self._is_of_same_kind(optimizer, parameters)
        settings = _settings_of(optimizer)
        if not is_continued or self._steps >= _MEMORY:
            self.made_anew = 0
        elif _are_of_one_phase(settings, self._settings) and self._is_empty and keeps_state(optimizer):
            self.made_anew += 1
        self._optimizer, self._class, self._settings = weakref.ref(optimizer), type(optimizer), settings
        self._parameters, self._steps = [weakref.ref(parameter) for parameter in parameters], 1
        self._made = []
        ends = (*parameters[:1], *parameters[-1:])
        self._ends = [weakref.ref(parameter) for parameter in ends if not parameter.is_inference()]
        self._left, self._gradient = self._versions(), self._first_gradient()
        self._computed = torch.autograd._get_sequence_nr()
        return is_continued

    def is_followed(self, optimizer: Any) -> bool:
        """Return whether the steps of an optimizer are those of the training, or may be: none was followed so far."""
        return self._optimizer is None or self._optimizer() is optimizer

    def may_be_followed(self, optimizer: Any) -> bool:
        """Return whether an optimizer is followed, or updates what the one before did: it will be, after this step."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return self.is_followed(optimizer) or self._is_of_same_kind(optimizer, parameters)

    def _is_of_same_kind(self, optimizer: Any, parameters: list[torch.Tensor]) -> bool:
        return (
            self._class is type(optimizer)
            and len(parameters) == len(self._parameters) > 0
            and all(reference() is parameter for reference, parameter in zip(self._parameters, parameters, strict=True))
        )

    def _is_included(self, optimizer: Any) -> bool:
        ends = [reference() for reference in self._ends]
        found = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        return all(id(end) in found for end in ends if end is not None)

    def _has_new_gradients(self) -> bool:
        """Return whether a backward pass has, or may have, reached the training since its last step."""
        if self._gradient is None:
            return True
        reference, known, version = self._gradient
        parameter = reference()
        if parameter is None or not parameter.requires_grad:
            return True
        gradient = parameter.grad
        if gradient is None:
            return False
        is_known = gradient is known()
        return not is_known or gradient._version != version

    def _first_gradient(self) -> _Gradient | None:
        for reference in self._ends:
            parameter = reference()
            if parameter is not None and (gradient := parameter.grad) is not None:
                return reference, weakref.ref(gradient), gradient._version
        return None

    def _versions(self) -> _Versions:
        return tuple([end._version for reference in self._ends if (end := reference()) is not None])


def _settings_of(optimizer: Any) -> dict[str, object]:
    """Return the settings that an optimizer was made with, as far as they are plain values."""
    defaults = getattr(optimizer, "defaults", {})
    return {name: value for name, value in defaults.items() if isinstance(value, (int, float, str, tuple))}


def _are_of_one_phase(settings: dict[str, object], before: dict[str, object]) -> bool:
    """Return whether two optimizers have the same settings, but for a rate that was changed as by a schedule."""
    rates = settings.get("lr"), before.get("lr")
    if {**settings, "lr": None} != {**before, "lr": None}:
        return False
    numbers = [rate for rate in rates if isinstance(rate, (int, float)) and rate > 0]
    return rates[0] == rates[1] or (len(numbers) == len(rates) and max(numbers) < _OTHER_PHASE * min(numbers))
