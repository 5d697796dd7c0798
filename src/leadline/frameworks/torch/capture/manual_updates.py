"""Parameters that are updated by other code than a PyTorch optimizer."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.autograd_graph import nodes_below
from leadline.frameworks.torch.naming.model_names import (
    ParameterNames,
    live_optimizers,
    optimizer_classes,
    parameters_of,
)

_WATCHED: Final = 16
"""Tensors whose versions are compared."""
_ELEMENTS: Final = 256
"""Elements of such a tensor that are compared with its gradient."""


class ManualUpdates:
    """Takes the place of an optimizer where a script or another library updates the parameters.

    Its parameters are those of the modules that backward passes reach, or else the tensors without a module. It holds
    all of them weakly.
    """

    def __init__(self, leaves: Iterable[torch.Tensor], names: ParameterNames) -> None:
        """
        Args:
            leaves: The leaf tensors of a backward pass.
        """
        leaves = list(leaves)
        parameters = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Parameter)]
        roots = names.models_of(parameters)
        held = {id(parameter) for root in roots for parameter in root.parameters()}
        self._roots = [weakref.ref(root) for root in roots]
        self._others = [weakref.ref(leaf) for leaf in parameters or leaves if id(leaf) not in held]
        self.state: dict[Any, Any] = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameters, in the form of an optimizer."""
        trained = [parameter for root in self._alive() for parameter in root.parameters() if parameter.requires_grad]
        others = [tensor for tensor in (reference() for reference in self._others) if tensor is not None]
        return [{"params": trained + others}]

    def is_alive(self) -> bool:
        """Return whether everything that it holds still exists."""
        return all(reference() is not None for reference in (*self._roots, *self._others))

    def is_training(self) -> bool:
        """Return whether any of the models is in training mode, or there is none."""
        models = self._alive()
        return not models or any(model.training for model in models)

    def _alive(self) -> list[torch.nn.Module]:
        return [root for root in (reference() for reference in self._roots) if root is not None]


class TensorVersions:
    """The versions of some tensors, which every operation in place advances, except through ``.data``."""

    def __init__(self) -> None:
        self._known: list[tuple[weakref.ref[torch.Tensor], int]] = []

    def record(self, tensors: Iterable[torch.Tensor]) -> None:
        """Record the versions of tensors, of many only of some."""
        tensors = list(tensors)
        chosen = tensors[:: max(len(tensors) // _WATCHED, 1)]
        self._known = [(weakref.ref(tensor), tensor._version) for tensor in chosen]

    def tensors(self) -> list[torch.Tensor]:
        """Return those tensors that still exist."""
        return [tensor for tensor in (reference() for reference, _ in self._known) if tensor is not None]

    def have_advanced(self) -> bool:
        """Return whether a tensor was changed since then."""
        current = ((reference(), version) for reference, version in self._known)
        return any(tensor is not None and tensor._version != version for tensor, version in current)


class FirstChange:
    """The first elements of some tensors and of their gradients, which tell an update from another change in place."""

    def __init__(self) -> None:
        self._known: list[tuple[weakref.ref[torch.Tensor], torch.Tensor, torch.Tensor]] = []

    def record(self, tensors: Iterable[torch.Tensor]) -> None:
        """Copy the elements of those tensors that have a gradient."""
        self._known = [
            (weakref.ref(tensor), _first_elements(tensor).clone(), _first_elements(gradient).clone())
            for tensor in tensors
            if (gradient := tensor.grad) is not None and _is_plain(tensor) and _is_plain(gradient)
        ]

    def is_update(self) -> bool:
        """Return whether no element was changed along its gradient; the first update of an optimizer changes none so.

        Sharpness-aware minimization goes along the gradients, to make a second backward pass there.
        """
        changes = [
            (_first_elements(tensor) - before, gradient)
            for reference, before, gradient in self._known
            if (tensor := reference()) is not None
        ]
        return not any(bool((change * gradient > 0).any()) for change, gradient in changes)


class GradientRenewals:
    """Counts backward passes in a row before which the gradients of the one before were removed or zeroed."""

    def __init__(self) -> None:
        self.count = 0
        self._last: tuple[weakref.ref[torch.Tensor], weakref.ref[torch.Tensor], int] | None = None

    def record(self, tensors: Iterable[torch.Tensor]) -> None:
        """Record a gradient at the end of a backward pass."""
        self._last = None
        for tensor in tensors:
            if tensor.grad is not None:
                self._last = weakref.ref(tensor), weakref.ref(tensor.grad), tensor.grad._version
                return

    def compare(self) -> None:
        """Count the backward pass that begins."""
        if self._last is None:
            return
        tensor, gradient = self._last[0](), self._last[1]()
        current = tensor.grad if tensor is not None else None
        is_same = current is gradient and current is not None and current._version == self._last[2]
        self.count = 0 if is_same else self.count + 1


def is_held(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether an optimizer that is alive holds one of these tensors; scans all objects."""
    held = {id(parameter) for optimizer in live_optimizers() for parameter in parameters_of(optimizer)}
    return any(id(tensor) in held for tensor in tensors)


def leaves_of(outputs: Iterable[Any], at_most: int | None = None) -> list[torch.Tensor]:
    """Return the leaf tensors that a backward pass from these outputs reaches, or some of them."""
    leaves: list[torch.Tensor] = []
    for node in nodes_below(output.grad_fn for output in outputs if isinstance(output, torch.Tensor)):
        if at_most is not None and len(leaves) >= at_most:
            break
        leaf = getattr(node, "variable", None)  # of the nodes that accumulate gradients
        if leaf is not None:
            leaves.append(leaf)
    return leaves


def has_optimizer() -> bool:
    """Return whether a PyTorch optimizer was ever created in this process: the first of a class marks its ``step``."""
    return any(getattr(kind.__dict__.get("step"), "hooked", False) for kind in optimizer_classes())


def is_keras_here() -> bool:
    """Return whether Keras was imported with PyTorch as its backend: its optimizers have an adapter of their own."""
    keras = sys.modules.get("keras")
    return keras is not None and keras.backend.backend() == "torch"


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return whether single elements of a tensor can be read without any communication."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided and tensor.numel() > 0


def _first_elements(tensor: torch.Tensor) -> torch.Tensor:
    """Return the first elements of a tensor's first row, without copying them."""
    row = tensor.detach()
    while row.dim() > 1:
        row = row[0]
    return row.reshape(-1)[:_ELEMENTS]
