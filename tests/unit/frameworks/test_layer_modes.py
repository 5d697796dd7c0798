"""Modes of layers of Keras, as calls show them: a mistake is told from a choice."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from leadline.frameworks.keras.modes import LayerModes, OutermostCall
from leadline.frameworks.kit.step_modes import ModelMode, mode_checks

STATE = "keras.src.backend.common.global_state"


class Model:
    def __init__(self, *variables: object) -> None:
        self.name, self.trainable_variables = "network", list(variables)


def layer_of(kind: str, **attributes: Any) -> Any:
    made = type(kind, (), {"__module__": "keras.src.layers.some"})()
    vars(made).update(attributes)
    return made


DROPOUT, NORM = layer_of("Dropout", rate=0.5), layer_of("BatchNormalization", trainable=True)
WEIGHT = object()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The context in which the last layer was called."""
    context = SimpleNamespace(training=None)
    module = ModuleType(STATE)
    vars(module)["get_global_attribute"] = lambda name: context
    monkeypatch.setitem(sys.modules, STATE, module)
    return context


def mode_of(modes: LayerModes, *trained: object) -> ModelMode | None:
    return modes.of_trained({id(variable) for variable in trained}, id)


@pytest.mark.parametrize("layer", [DROPOUT, NORM])
def test_a_call_without_the_argument_is_in_evaluation_mode(layer: Any, given: SimpleNamespace) -> None:
    modes, model = LayerModes(), Model(WEIGHT)
    modes.add(layer, (1,), {}, OutermostCall(model, {}))
    assert mode_of(modes, WEIGHT) == ModelMode("network", True)
    assert mode_of(modes, object()) is None
    given.training = True
    modes.add(layer, (1,), {}, OutermostCall(model, {"training": True}))
    assert mode_of(modes, WEIGHT) == ModelMode("network", False)


def test_a_mode_that_is_given_is_meant(given: SimpleNamespace) -> None:
    model = Model(WEIGHT)
    for training in (False, True):
        modes = LayerModes()
        modes.add(NORM, (1,), {"training": False}, OutermostCall(model, {"training": training}))
        assert mode_of(modes, WEIGHT) == ModelMode("network", False)


def test_what_does_the_same_in_both_modes_has_none(given: SimpleNamespace) -> None:
    modes, model = LayerModes(), Model(WEIGHT)
    frozen, none = layer_of("BatchNormalization", trainable=False), layer_of("Dropout", rate=0.0)
    for layer in (frozen, none, layer_of("Dense")):
        modes.add(layer, (1,), {}, OutermostCall(model, {}))
    assert modes.has_layers
    assert not modes.has_modes
    symbolic = layer_of("KerasTensor")
    modes.add(DROPOUT, (symbolic,), {}, OutermostCall(model, {}))
    assert not modes.has_modes


def test_models_are_not_kept_alive(given: SimpleNamespace) -> None:
    modes, model = LayerModes(), Model(WEIGHT)
    modes.add(DROPOUT, (1,), {}, OutermostCall(model, {}))
    del model
    assert mode_of(modes, WEIGHT) is None


def test_checks_count_steps_in_a_row() -> None:
    assert mode_checks(None, 3) == {"model/train_steps_in_eval_mode": -1.0}
    assert mode_checks(ModelMode("network", True), 3) == {"network/train_steps_in_eval_mode": 3.0}
    assert mode_checks(ModelMode("network", False), 3) == {"network/train_steps_in_eval_mode": 0.0}
