"""Models to which called modules belong, and names of their modules."""

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
    """Dotted name by module id; the root is named after its class."""
    root_name: str
    prefix: str
    """Prefix of all names of the model."""
    is_trained: bool
    """Whether an optimizer updates it, or the user registered it."""


class ModuleNames:
    """Finds and caches the model of each outermost module that is called, through weak references."""

    def __init__(self, names: ParameterNames) -> None:
        self._names = names
        self._trained: list[weakref.ref[torch.nn.Module]] = []
        self._known: dict[int, tuple[weakref.ref[torch.nn.Module], ModelModules]] = {}

    def add_trained(self, roots: Iterable[torch.nn.Module]) -> None:
        """Mark models as trained."""
        self._trained = [reference for reference in self._trained if reference() is not None]
        for root in roots:
            if not any(reference() is root for reference in self._trained):
                self._trained.append(weakref.ref(root))
                self._known.clear()

    def is_evaluating(self) -> bool:
        """Whether a trained model is in eval mode."""
        return any(not unwrap(root).training for root in self._alive())

    def trained(self) -> list[tuple[str, torch.nn.Module]]:
        """Return the trained models, each with the prefix of its modules' names."""
        return [(self._names.prefix(root), unwrap(root)) for root in self._alive()]

    def _alive(self) -> list[torch.nn.Module]:
        return [root for root in (reference() for reference in self._trained) if root is not None]

    def model_of(self, called: torch.nn.Module) -> ModelModules:
        """Return the model that a module belongs to: a trained model if one contains it, else the module itself."""
        known = self._known.get(id(called))
        if known is not None and known[0]() is called:
            return known[1]
        model = next((trained for trained in self._trained_models() if id(called) in trained.names), None)
        model = model or self._make(called, is_trained=False)
        if len(self._known) > 256:
            self._known.clear()
        self._known[id(called)] = (weakref.ref(called), model)
        return model

    def _trained_models(self) -> Iterable[ModelModules]:
        for reference in self._trained:
            root = reference()
            if root is not None:
                yield self._make(root, is_trained=True)

    def _make(self, root: torch.nn.Module, *, is_trained: bool) -> ModelModules:
        inner = unwrap(root)
        prefix = self._names.prefix(root)
        root_name = prefix.removesuffix("_") or type(inner).__name__
        names = {id(module): prefix + name for name, module in inner.named_modules() if name}
        names[id(inner)] = root_name
        names.setdefault(id(root), "")
        return ModelModules(weakref.ref(root), names, root_name, prefix, is_trained)
