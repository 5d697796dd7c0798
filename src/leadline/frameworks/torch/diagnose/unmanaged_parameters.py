"""Parameters that receive gradients but belong to no optimizer."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torch

from leadline.frameworks.torch.naming.model_names import (
    clean_named_parameters,
    live_optimizers,
    parameters_of,
    unwrap,
)

_MAX_REPORTED: Final = 100
_MAX_MODULES: Final = 256
_MAX_ENTRIES: Final = 64
"""Entries of a list or dictionary that are looked at."""


class UnmanagedParameters:
    """Parameters that may belong to no optimizer.

    Optimizers that may hold them are searched among those that have stepped; only if that fails, among all live
    optimizers, once per parameter: such a search takes 0.1 s. A parameter that an optimizer held which is gone was
    trained before, and is left as it is on purpose: a further stage trains a part of the model.
    """

    def __init__(self) -> None:
        self._candidates: dict[str, weakref.ref[torch.Tensor]] = {}
        self._held: set[str] = set()
        self._reported: set[str] = set()

    def add(self, named: Mapping[str, torch.Tensor]) -> None:
        """Add parameters by name."""
        self._candidates |= {name: weakref.ref(parameter) for name, parameter in named.items()}

    def discard_those_of(self, models: Iterable[torch.nn.Module]) -> None:
        """Discard parameters of these models."""
        if self._candidates:
            held = {id(parameter) for model in models for parameter in model.parameters()}
            alive = ((name, reference, reference()) for name, reference in self._candidates.items())
            self._candidates = {name: reference for name, reference, parameter in alive if id(parameter) not in held}

    def find(
        self, stepping: Iterable[torch.optim.Optimizer], once_held: Mapping[int, weakref.ref[torch.Tensor]]
    ) -> dict[str, bool]:
        """Return, for parameters that have a gradient or were reported before, whether no optimizer holds them.

        Args:
            stepping: The optimizers that have stepped so far.
            once_held: The parameters of these, and of earlier ones, by id.
        """
        with_gradient = {
            name: parameter
            for name, reference in self._candidates.items()
            if (parameter := _with_gradient(reference())) is not None
        }
        if not with_gradient and not self._reported:
            return {}
        held = {id(parameter) for optimizer in stepping for parameter in parameters_of(optimizer)}
        lost = {
            name for name, parameter in with_gradient.items() if id(parameter) not in held and name not in self._held
        }
        lost -= {name for name in lost if _is_among(with_gradient[name], once_held)}
        new = lost - self._reported
        if new:
            alive = {id(parameter) for optimizer in live_optimizers() for parameter in parameters_of(optimizer)}
            self._held |= {name for name in new if id(with_gradient[name]) in alive}
            lost -= self._held
        self._reported |= set(sorted(lost)[:_MAX_REPORTED])
        return {name: name in lost for name in sorted(self._reported)}


class CalledModules:
    """Modules that took part in captured forward passes in training mode, but are in no model with an optimizer.

    Another model, such as a discriminator whose optimizer holds the generator's parameters; and modules that their
    model does not know, since they are in a plain list. Their names are ``Discriminator.0.weight`` and
    ``layers[0].weight``; of the second model of a class ``Sequential_1.0.weight``.
    """

    def __init__(self) -> None:
        self.parameters = UnmanagedParameters()
        self._known: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        """The modules with their names."""

    def add_model(self, root: torch.nn.Module) -> None:
        """Add a model that was called."""
        if self._is_new(root):
            self._add(type(unwrap(root)).__name__, root)

    def add_unregistered(self, module: torch.nn.Module, owner: torch.nn.Module | None, name: str) -> None:
        """Add a module that was called by another one, which does not know it.

        Args:
            owner: The calling module.
            name: The name of the owner; empty for the model itself.
        """
        if self._is_new(module):
            place = next(_places(module, owner), type(module).__name__)
            self._add(f"{name}.{place}" if name else place, module)

    def _is_new(self, module: torch.nn.Module) -> bool:
        return module.training and module not in self._known and len(self._known) < _MAX_MODULES

    def _add(self, name: str, module: torch.nn.Module) -> None:
        taken = set(self._known.values())
        candidates = (name, *(f"{name}_{number}" for number in range(1, len(taken) + 1)))
        name = self._known[module] = next(candidate for candidate in candidates if candidate not in taken)
        self.parameters.add({f"{name}.{inner}": parameter for inner, parameter in clean_named_parameters(module)})


def unregistered_tensors(root: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that modules hold as attributes, or in lists and dictionaries, although they are to be trained.

    They require a gradient, but are no parameters: ``model.parameters()`` does not contain them.
    """
    for name, module in root.named_modules():
        for attribute, value in vars(module).items():
            if attribute in ("_modules", "_parameters", "_buffers"):
                continue
            entries: Iterable[tuple[str, Any]] = ((attribute, value),)
            if isinstance(value, dict):
                entries = ((f"{attribute}[{key!r}]", entry) for key, entry in list(value.items())[:_MAX_ENTRIES])
            elif isinstance(value, (list, tuple)):
                entries = ((f"{attribute}[{key}]", entry) for key, entry in enumerate(value[:_MAX_ENTRIES]))
            for place, entry in entries:
                is_tensor = isinstance(entry, torch.Tensor) and not isinstance(entry, torch.nn.Parameter)
                if is_tensor and entry.is_leaf and entry.requires_grad:
                    yield f"{name}.{place}" if name else place, entry


def _places(module: torch.nn.Module, owner: torch.nn.Module | None) -> Iterator[str]:
    """Yield the attributes of a module whose lists or dictionaries hold another one, such as ``layers[0]``."""
    for attribute, value in vars(owner).items() if owner is not None else ():
        entries: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict) and attribute not in ("_modules", "_parameters", "_buffers"):
            entries = value.items()
        elif isinstance(value, (list, tuple)):
            entries = enumerate(value)
        for key, entry in entries:
            if entry is module:
                yield f"{attribute}[{key!r}]"


def _is_among(parameter: torch.Tensor, known: Mapping[int, weakref.ref[torch.Tensor]]) -> bool:
    reference = known.get(id(parameter))
    return reference is not None and reference() is parameter


def _with_gradient(parameter: torch.Tensor | None) -> torch.Tensor | None:
    """Return the parameter if it requires a gradient and has one."""
    if parameter is None or not parameter.requires_grad or parameter.grad is None:
        return None
    return parameter
