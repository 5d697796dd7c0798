"""What a train step of Keras leaves out: weights that became trainable too late, and regularizers that nobody calls."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterable
from types import ModuleType
from typing import Any, Final

from leadline.frameworks.keras.frozen import default_train_step
from leadline.frameworks.patches import Patches
from leadline.records.names import UNCALLED_REGULARIZERS, UNTRAINED_VARIABLES

_KINDS: Final = ("L1", "L2", "L1L2", "OrthogonalRegularizer")
_FACTORS: Final = ("l1", "l2", "factor")


class Regularizers:
    """Notes which regularizers are called: by Keras where ``losses`` is read, or by the script.

    Regularizers of the script's own classes are not known.
    """

    def __init__(self) -> None:
        self._called: weakref.WeakSet[Any] = weakref.WeakSet()
        self._kinds: tuple[type, ...] = ()

    def install(self, patches: Patches, module: ModuleType) -> None:
        """Replace the call of each class of ``keras.src.regularizers.regularizers``."""
        self._kinds = tuple(kind for name in _KINDS if (kind := getattr(module, name, None)) is not None)
        for kind in self._kinds:
            patches.replace(kind, "__call__", self._make_call)

    def _make_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        called, kinds = self._called, self._kinds

        def __call__(regularizer: Any, x: Any) -> Any:
            if type(regularizer) in kinds:  # one of the script's may have no hash
                called.add(regularizer)
            return original(regularizer, x)

        return __call__

    def uncalled(self, variables: Iterable[Any]) -> dict[str, float]:
        """Return how many of the trained variables have a regularizer that was never called; empty: none."""
        count = sum(self._is_uncalled(getattr(variable, "regularizer", None)) for variable in variables)
        return {f"model/{UNCALLED_REGULARIZERS}": float(count)} if count else {}

    def _is_uncalled(self, regularizer: Any) -> bool:
        if type(regularizer) not in self._kinds or regularizer in self._called:
            return False
        return any(float(getattr(regularizer, factor, 0.0)) > 0 for factor in _FACTORS)


def untrained_variables(model: Any, trained: Container[int], identity: Callable[[Any], int]) -> dict[str, float]:
    """Return how many trainable variables of a model its ``fit`` leaves out; empty: none, or it has its own train step.

    ``fit`` trains what was trainable where its function was made, in its first call since ``compile``.

    Args:
        trained: The identities of the variables that are trained.
        identity: Returns that of a variable of Keras.
    """
    if type(model).train_step is not default_train_step():
        return {}
    variables = model.trainable_variables
    left_out = [variable for variable in variables if identity(variable) not in trained]
    if not left_out or len(left_out) == len(variables):
        return {}
    return {f"{model.name}/{UNTRAINED_VARIABLES}": float(len(left_out))}
