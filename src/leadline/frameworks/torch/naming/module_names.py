"""Which model a module that is called belongs to, and what its modules are called."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from leadline.frameworks.torch.naming.parameter_names import ParameterNames, unwrap


@dataclass(frozen=True, slots=True)
class ModelModules:
    """A model with the names of its modules."""

    root: Callable[[], torch.nn.Module | None]
    names: dict[int, str]
    """By the module's identity, its dotted name; the root's is its class."""
    root_name: str
    prefix: str
    """What stands in front of all names of the model."""
    is_trained: bool
    """Whether some optimizer updates it, or somebody named it."""


class ModuleNames:
    """Finds the home of each module that is called by nobody else's; made once for each and kept weakly."""

    def __init__(self, names: ParameterNames) -> None:
        self._names = names
        self._trained: list[weakref.ref[torch.nn.Module]] = []
        self._known: dict[int, tuple[weakref.ref[torch.nn.Module], ModelModules]] = {}

    def add_trained(self, roots: Iterable[torch.nn.Module]) -> None:
        """These models are trained."""
        self._trained = [each for each in self._trained if each() is not None]
        for root in roots:
            if not any(each() is root for each in self._trained):
                self._trained.append(weakref.ref(root))
                self._known.clear()

    def is_evaluating(self) -> bool:
        """Whether a model that is trained stands in eval mode."""
        alive = [root for root in (each() for each in self._trained) if root is not None]
        return any(not unwrap(root).training for root in alive)

    def trained(self) -> list[tuple[str, torch.nn.Module]]:
        """The models that are trained, each with what stands in front of its modules' names."""
        alive = [root for root in (each() for each in self._trained) if root is not None]
        return [(self._names.prefix(root), unwrap(root)) for root in alive]

    def home(self, called: torch.nn.Module) -> ModelModules:
        """The model that a module belongs to: one that is trained, else its own."""
        known = self._known.get(id(called))
        if known is not None and known[0]() is called:
            return known[1]
        home = next((each for each in self._trained_homes() if id(called) in each.names), None)
        home = home or self._make(called, is_trained=False)
        if len(self._known) > 256:
            self._known.clear()
        self._known[id(called)] = (weakref.ref(called), home)
        return home

    def _trained_homes(self) -> Iterable[ModelModules]:
        for reference in self._trained:
            root = reference()
            if root is not None:
                yield self._make(root, is_trained=True)

    def _make(self, root: torch.nn.Module, *, is_trained: bool) -> ModelModules:
        inner = unwrap(root)
        prefix = self._names.prefix(root)
        own = prefix.removesuffix("_") or type(inner).__name__
        names = {id(module): prefix + name for name, module in inner.named_modules() if name}
        names[id(inner)] = own
        names.setdefault(id(root), "")
        return ModelModules(weakref.ref(root), names, own, prefix, is_trained)
