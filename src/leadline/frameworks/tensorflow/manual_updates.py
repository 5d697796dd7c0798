"""Steps of eager loops that update their variables by hand: ``tape.gradient``, then ``assign_sub``."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from leadline.frameworks.capture_requests import CapturedTensor
from leadline.frameworks.kit.named_tensor import GRADIENTS, NamedTensor
from leadline.frameworks.patches import Patches
from leadline.frameworks.tensorflow.steps import Steps
from leadline.frameworks.tensorflow.taps import EagerTaps
from leadline.frameworks.tensorflow.tracing import is_eager
from leadline.instrumentation.guard import Guard
from leadline.records.names import gradient_name
from leadline.records.plan import CaptureItem

_ASSIGNMENTS = ("assign", "assign_add", "assign_sub")


class VariableUpdates:
    """Takes the place of an optimizer where a script updates the variables of a tape; holds them weakly."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = {name: weakref.ref(variable) for name, variable in variables.items()}

    def updates(self, variables: Mapping[str, Any]) -> bool:
        """Return whether these are its variables."""
        return self._variables.keys() == variables.keys() and all(
            self._variables[name]() is variable for name, variable in variables.items()
        )

    def variables(self) -> dict[str, Any]:
        """Return the variables that still exist, by name."""
        alive = ((name, reference()) for name, reference in self._variables.items())
        return {name: variable for name, variable in alive if variable is not None}


class VariableSteps:
    """Makes a step of a script's own update.

    After gradients of variables it waits for their use. An optimizer that uses them makes its own step. If the script
    assigns to one of the variables, an update begins, which ends when it has assigned to all that have a gradient, or
    computes the next gradient.
    """

    def __init__(self, steps: Steps, guard: Guard) -> None:
        self._steps, self._guard = steps, guard
        self._awaited: dict[str, tuple[Any, Any]] = {}
        self._left: dict[int, str] = {}
        """The variables that were not assigned to yet, by identity."""
        self._owners: list[VariableUpdates] = []
        self._updating: VariableUpdates | None = None

    def install(self, patches: Patches) -> None:
        for name in _ASSIGNMENTS:
            patches.replace(ResourceVariable, name, self._make_assign)

    def expect(self, gradients: Mapping[str, tuple[Any, Any]]) -> None:
        """Await an update by gradients: the variables with their gradients, by name. May raise ``TrainingStopped``."""
        self.end()
        self._awaited.update({name: pair for name, pair in gradients.items() if pair[1] is not None})
        self._left = {id(variable): name for name, (variable, _) in self._awaited.items()}

    def forget(self) -> None:
        """Await nothing: an optimizer uses the gradients."""
        self.end()
        self._awaited, self._left = {}, {}

    def end(self) -> None:
        """End the update that runs, if there is one. May raise ``TrainingStopped``."""
        owner, self._updating = self._updating, None
        if owner is not None:
            self._awaited, self._left = {}, {}
            self._steps.end_update(owner)

    def _make_assign(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard = self._guard

        def assign(variable: Any, *args: Any, **kwargs: Any) -> Any:
            if id(variable) not in self._left or not is_eager():
                return original(variable, *args, **kwargs)
            guard.run(self._begin)
            result = original(variable, *args, **kwargs)
            guard.run(self._end_of, variable)
            return result

        return assign

    def _begin(self) -> None:
        if self._updating is None:
            variables = {name: variable for name, (variable, _) in self._awaited.items()}
            self._updating = self._owner(variables)
            gradients = {name: gradient for name, (_, gradient) in self._awaited.items()}
            self._steps.begin_update(
                self._updating, lambda items: _gradients_of(gradients, items), tuple(variables.values())
            )

    def _end_of(self, variable: Any) -> None:
        self._left.pop(id(variable), None)
        if not self._left:
            self.end()

    def _owner(self, variables: Mapping[str, Any]) -> VariableUpdates:
        self._owners = [owner for owner in self._owners if owner.variables()]
        for owner in self._owners:
            if owner.updates(variables):
                return owner
        self._owners.append(VariableUpdates(variables))
        return self._owners[-1]


def _gradients_of(gradients: Mapping[str, Any], items: Sequence[CaptureItem]) -> list[CapturedTensor]:
    taps = EagerTaps(items)
    taps.add([NamedTensor(gradient_name(name), GRADIENTS, gradient) for name, gradient in gradients.items()])
    return taps.values()
