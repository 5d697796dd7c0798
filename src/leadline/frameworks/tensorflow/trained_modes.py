"""The modes of the models of Keras that the train steps of TensorFlow call, and what these leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from leadline.frameworks.keras.left_out import Regularizers, untrained_variables
from leadline.frameworks.keras.modes import LayerModes, OutermostCall
from leadline.frameworks.kit.step_modes import ModelMode, mode_checks
from leadline.frameworks.tensorflow.replay import StepCall
from leadline.frameworks.tensorflow.tracing import Tracing, is_eager


class TrainedModes:
    """Follows the modes of dropout and batch normalization, in the traces of functions and in eager steps.

    The modes of a function are those of its traces, so that its calls are only counted.

    Args:
        trained_by: Returns the variables that an owner of steps trains.
    """

    def __init__(self, tracing: Tracing, trained_by: Callable[[Any], Iterable[Any]]) -> None:
        self._tracing, self._trained_by, self.regularizers = tracing, trained_by, Regularizers()
        self._eager = LayerModes()
        self._eager_steps = 0

    def add(self, layer: Any, args: Sequence[Any], kwargs: dict[str, Any], outermost: OutermostCall) -> None:
        """Add the call of a layer that has ended."""
        if is_eager():
            self._eager.add(layer, args, kwargs, outermost)
        for facts in self._tracing.learning():
            facts.modes.add(layer, args, kwargs, outermost)

    def begin_fitted(self, call: StepCall, owners: Sequence[Any], fitted: Any, number: int) -> None:
        """Note what ``fit`` leaves out, and that its function cannot be traced again then; called at each step.

        Args:
            fitted: The model whose ``fit`` runs.
            number: That of the call of ``fit``, which is looked at once.
        """
        facts = call.facts
        if facts.fitted_in == number:
            return
        facts.fitted_in = number
        trained = {id_of(variable) for owner in owners for variable in self._trained_by(owner)}
        facts.left_out = untrained_variables(fitted, trained, id_of) if trained else {}
        if facts.left_out:
            facts.refusal = "what is trainable was changed after the function was made"

    def of_call(self, call: StepCall, owners: Sequence[Any]) -> dict[str, float]:
        """Return the checks of a step that a function makes."""
        modes = call.facts.modes
        checks = mode_checks(self._mode(modes, owners), call.facts.steps) if modes.has_layers else {}
        trained = [variable for owner in owners for variable in self._trained_by(owner)]
        return checks | call.facts.left_out | self.regularizers.uncalled(trained)

    def of_update(self, owner: Any, variables: Iterable[Any]) -> dict[str, float]:
        """Return the checks of a step outside of functions, called at each one; empty: no layers were called.

        Args:
            variables: What is updated, as far as the owner does not know it yet.
        """
        modes, self._eager = self._eager, LayerModes()
        mode = self._mode(modes, [owner], variables)
        self._eager_steps = self._eager_steps + 1 if mode is not None and mode.is_evaluation else 0
        if not modes.has_layers:
            return {}
        trained = {id_of(variable): variable for variable in (*self._trained_by(owner), *variables)}
        return mode_checks(mode, self._eager_steps) | self.regularizers.uncalled(trained.values())

    def _mode(self, modes: LayerModes, owners: Sequence[Any], variables: Iterable[Any] = ()) -> ModelMode | None:
        if not modes.has_modes:
            return None
        trained = {id_of(variable) for owner in owners for variable in self._trained_by(owner)}
        return modes.of_trained(trained | set(map(id_of, variables)), id_of)


def id_of(variable: Any) -> int:
    """Return the identity of a variable, or of the one that a variable of Keras wraps."""
    return id(getattr(variable, "_value", variable))
