"""Capture of an optimizer of Keras on PyTorch, as if it were one of PyTorch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from leadline.frameworks.labels import Labels
from leadline.frameworks.torch.capture.optimizer_capture import TorchSubject
from leadline.frameworks.torch.naming.model_names import NamedParameter, find_roots, live_modules


class KerasSubject(TorchSubject):
    """See ``leadline.frameworks.adapter.Subject``.

    Args:
        optimizer: The optimizer of Keras.
        given: The variables of its first update, before which it knows none.
        labels: The labels of all optimizers.
        note: Takes a line about something that cannot be captured.
    """

    def __init__(self, optimizer: Any, given: Sequence[Any], labels: Labels, note: Callable[[str], None]) -> None:
        view = type(type(optimizer).__name__, (_TorchView,), {})(optimizer, given)  # labelled by the name of its class
        self._view = view  # the base class holds it weakly
        super().__init__(view, view, labels, _NoClipping(), lambda _: None, note)  # type: ignore[arg-type]


class _TorchView:
    """An optimizer of Keras with the attributes of one of PyTorch; it also names its parameters."""

    def __init__(self, optimizer: Any, given: Sequence[Any]) -> None:
        self._optimizer, self._given = weakref.ref(optimizer), tuple(given)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Its parameters and its learning rate, as one group."""
        optimizer = self._optimizer()
        if optimizer is None:
            return []
        rate = optimizer.learning_rate
        value = rate.value if hasattr(rate, "value") else rate
        return [{"params": [variable.value for variable in self._variables()], "lr": value}]

    @property
    def state(self) -> Mapping[torch.Tensor, Mapping[str, Any]]:
        """Its variables by parameter: ``sequential_dense_kernel_momentum`` is the ``momentum`` of a parameter."""
        optimizer = self._optimizer()
        known = list(optimizer.variables) if optimizer is not None else []
        return {variable.value: dict(_variables_of(variable, known)) for variable in self._variables()}

    def name(self, view: Any) -> tuple[str, list[NamedParameter]]:
        """Return the classes of the models that it updates, and its parameters with their paths."""
        named = [NamedParameter(variable.path, variable.value) for variable in self._variables()]
        roots = find_roots([parameter.parameter for parameter in named], live_modules())
        return " + ".join(type(root).__name__ for root in roots), named

    def _variables(self) -> Sequence[Any]:
        optimizer = self._optimizer()
        return optimizer._trainable_variables if optimizer is not None and optimizer.built else self._given


def _variables_of(variable: Any, known: Sequence[Any]) -> list[tuple[str, Any]]:
    prefix = variable.path.replace("/", "_") + "_"
    return [
        (own.path.rpartition("/")[2].removeprefix(prefix), own.value)
        for own in known
        if own.path.rpartition("/")[2].startswith(prefix) and own.shape == variable.shape
    ]


class _NoClipping:
    """Keras clips in its optimizers."""

    clips = False

    def take(self, parameters: set[int], reader: int) -> list[tuple[str, Any]]:
        """Return nothing."""
        return []
