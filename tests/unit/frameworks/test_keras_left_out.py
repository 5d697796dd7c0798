"""What a train step of Keras leaves out: weights that became trainable too late, regularizers that nobody calls."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from leadline.frameworks.keras.left_out import Regularizers, untrained_variables
from leadline.frameworks.patches import Patches


class L2:
    def __init__(self, l2: float) -> None:
        self.l2 = l2

    def __call__(self, x: float) -> float:
        return self.l2 * x * x


class Own(L2):
    """A class of the script, which may be called in a way that is not seen."""

    def __call__(self, x: float) -> float:
        return 2 * self.l2 * x * x


class Compared(L2):
    """A class of the script that compares by value, and so has no hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compared) and other.l2 == self.l2

    __hash__ = None  # type: ignore[assignment]


class Model:
    def __init__(self, *variables: object) -> None:
        self.name, self.trainable_variables = "network", list(variables)

    def train_step(self) -> None:
        """As that of Keras."""


class OwnStep(Model):
    def train_step(self) -> None:
        """As that of a script, which trains what it wants to."""


def uncalled(*regularizers: object, calls: int = 0) -> float:
    patches, known = Patches(), Regularizers()
    module: Any = ModuleType("keras.src.regularizers.regularizers")
    module.L2 = L2
    known.install(patches, module)
    try:
        assert all(L2(3.0)(2.0) == 12.0 for _ in range(2))
        for regularizer in regularizers[:calls]:
            assert callable(regularizer)
            regularizer(1.0)
        variables = [SimpleNamespace(regularizer=regularizer) for regularizer in regularizers]
        return known.uncalled([*variables, object()]).get("model/uncalled_regularizers", 0.0)
    finally:
        patches.restore()


def test_regularizers_count_until_they_are_called() -> None:
    assert uncalled(L2(0.1), L2(0.2)) == 2
    assert uncalled(L2(0.1), L2(0.2), calls=1) == 1
    assert uncalled(L2(0.1), L2(0.2), calls=2) == 0


def test_regularizers_without_effect_and_those_of_the_script_do_not_count() -> None:
    assert uncalled(L2(0.0), Own(0.1), None) == 0


def test_a_regularizer_of_the_script_is_called_as_before() -> None:
    assert uncalled(Compared(0.1), calls=1) == 0


@pytest.mark.parametrize(
    ("kind", "trained", "count"), [(Model, 2, 1.0), (Model, 3, 0.0), (Model, 0, 0.0), (OwnStep, 2, 0.0)]
)
def test_trainable_variables_that_fit_does_not_train_count(
    monkeypatch: pytest.MonkeyPatch, kind: type[Model], trained: int, count: float
) -> None:
    keras: Any = SimpleNamespace(Model=Model)
    monkeypatch.setitem(sys.modules, "keras", keras)
    variables = [object() for _ in range(3)]
    found = untrained_variables(kind(*variables), set(map(id, variables[:trained])), id)
    assert found == ({"network/untrained_variables": count} if count else {})
