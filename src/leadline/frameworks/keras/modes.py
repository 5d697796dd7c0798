"""Whether dropout and batch normalization of Keras were in training mode where a train step called its models."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from leadline.frameworks.kit.step_modes import ModelMode

_DROPOUTS: Final = frozenset({"AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise"})
_NORMALIZATION: Final = "BatchNormalization"
_TRAINING: Final = "training"
_SYMBOLIC: Final = "KerasTensor"


class OutermostCall:
    """A call of a layer by the script, and what that passed as ``training``."""

    def __init__(self, layer: Any, kwargs: dict[str, Any]) -> None:
        self.layer = layer
        self.given = kwargs.get(_TRAINING)


@dataclass(slots=True)
class _Called:
    """The calls of an outermost layer with dropout or batch normalization in it."""

    layer: weakref.ref[Any]
    is_any_training: bool = False
    is_any_left_out: bool = False
    """Whether ``training`` was left out of a call in which all such layers were in evaluation mode."""


class LayerModes:
    """The modes of the layers that were called since the last train step, or in the traces of one function.

    The call of a model tells a mistake from a choice: one that is given ``training=False`` is meant so, and one that is
    given ``training=True`` chooses for itself which of its layers follow.
    """

    def __init__(self) -> None:
        self._called: dict[int, _Called] = {}
        """By the identities of the outermost layers."""
        self.has_layers = False
        """Whether a layer was called."""

    @property
    def has_modes(self) -> bool:
        """Whether a layer was called that behaves differently in training."""
        return bool(self._called)

    def add(self, layer: Any, args: Sequence[Any], kwargs: dict[str, Any], outermost: OutermostCall) -> None:
        """Add the call of a layer that has ended, in an outermost one that has not, or is itself."""
        if args and type(args[0]).__name__ == _SYMBOLIC:
            return
        self.has_layers = True
        if not has_mode(layer):
            return
        mode = kwargs.get(_TRAINING) if outermost.layer is layer else resolved_training()
        called = self._called.get(id(outermost.layer))
        if called is None or called.layer() is not outermost.layer:
            called = self._called[id(outermost.layer)] = _Called(weakref.ref(outermost.layer))
        if mode is not None and mode is not False:  # also a tensor, whose value is not known
            called.is_any_training = True
        else:
            called.is_any_left_out |= outermost.given is None

    def of_trained(self, trained: Container[int], identity: Callable[[Any], int]) -> ModelMode | None:
        """Return the mode of a trained model, first of one in evaluation mode; None: no trained one has such layers.

        Args:
            trained: The identities of the variables that are trained.
            identity: Returns that of a variable of Keras.
        """
        layers = [(layer, called) for called in self._called.values() if (layer := called.layer()) is not None]
        found = [
            ModelMode(str(layer.name), called.is_any_left_out and not called.is_any_training)
            for layer, called in layers
            if any(identity(variable) in trained for variable in layer.trainable_variables)
        ]
        return max(found, key=lambda mode: mode.is_evaluation, default=None)


def has_mode(layer: Any) -> bool:
    """Return whether a layer behaves differently in training: one that is frozen or drops nothing does not."""
    kind: Any = type(layer)
    is_normalization, is_dropout = _kind_of(kind)
    if is_normalization:
        return bool(layer.trainable)
    return is_dropout and bool(getattr(layer, "rate", None) or getattr(layer, "stddev", None))


@lru_cache(maxsize=256)
def _kind_of(kind: type) -> tuple[bool, bool]:
    """Return whether layers of a class normalize by the statistics of a batch, and whether they drop or add noise."""
    kinds = {owner.__name__ for owner in kind.__mro__ if owner.__module__.startswith("keras.src.layers.")}
    return _NORMALIZATION in kinds, not kinds.isdisjoint(_DROPOUTS)


def resolved_training() -> Any:
    """Return what the layer was given as ``training`` that was called last, within another one."""
    state = sys.modules["keras.src.backend.common.global_state"]
    return getattr(state.get_global_attribute("current_call_ctx"), _TRAINING, None)
