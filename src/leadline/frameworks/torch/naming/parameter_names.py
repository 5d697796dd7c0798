"""Modules that hold an optimizer's parameters, and the names of these parameters."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import torch

from leadline.frameworks.torch.naming.module_registry import ModuleRegistry, live_modules, live_optimizers

_WRAPPERS: Final = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "AveragedModel": "module",
}
_INFIXES: Final = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


@dataclass(frozen=True, slots=True)
class NamedParameter:
    """A parameter with its dotted name."""

    name: str
    parameter: torch.Tensor

    @property
    def collections(self) -> tuple[str, ...]:
        return ("biases",) if self.name.endswith("bias") else ("weights",)


class ParameterNames:
    """Names parameters; a second live model with the same parameter names gets its class as prefix."""

    def __init__(self, registry: ModuleRegistry) -> None:
        self._registry = registry
        self._roots: list[tuple[weakref.ref[torch.nn.Module], str]] = []
        self._frozen_owners: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[torch.optim.Optimizer]] = (
            weakref.WeakKeyDictionary()
        )
        """The optimizer with which each model's frozen parameters are named."""
        self.on_trained: Callable[[Iterable[torch.nn.Module]], None] = _ignore
        """Called with the models that an optimizer updates, as soon as they are named."""

    def name(self, optimizer: torch.optim.Optimizer) -> tuple[str, list[NamedParameter]]:
        """Return the classes of the models that an optimizer updates, and its parameters with names.

        Parameters of these models that no optimizer may change (frozen ones) are included with the first of a model's
        optimizers.
        """
        updated = parameters_of(optimizer)
        outermost = self._registry.outermost()
        roots = find_roots(updated, outermost)
        held = {id(parameter) for root in roots for parameter in root.parameters()}
        if len(held & {id(parameter) for parameter in updated}) < len(updated):
            outermost = live_modules()
            roots = find_roots(updated, outermost)
            for root in roots:
                self._registry.add(root)
        self._assign_prefixes(roots, outermost)
        self.on_trained(roots)
        named: dict[int, NamedParameter] = {}
        wanted = {id(parameter) for parameter in updated}
        for root in roots:
            prefix, owns_frozen = self.prefix(root), self._owns_frozen(optimizer, root)
            for name, parameter in clean_named_parameters(root):
                if id(parameter) in wanted or (owns_frozen and not parameter.requires_grad):
                    named.setdefault(id(parameter), NamedParameter(prefix + name, parameter))
        for index, parameter in enumerate(updated):
            unknown = f"{type(optimizer).__name__}_parameter_{index}"
            named.setdefault(id(parameter), NamedParameter(unknown, parameter))
        classes = " + ".join(type(unwrap(root)).__name__ for root in roots)
        return classes or "a model without modules", list(named.values())

    def _owns_frozen(self, optimizer: torch.optim.Optimizer, root: torch.nn.Module) -> bool:
        reference = self._frozen_owners.get(root)
        owner = reference() if reference is not None else None
        if owner is None:
            owner = optimizer
            self._frozen_owners[root] = weakref.ref(optimizer)
        return owner is optimizer

    def _outermost_including(self, root: torch.nn.Module) -> list[torch.nn.Module]:
        """Return the outermost modules; scan all objects if the model was built before the registry existed."""
        outermost = self._registry.outermost()
        if any(module is root for module in outermost) or next(root.parameters(), None) is None:
            return outermost
        outermost = live_modules()
        for module in outermost:
            self._registry.add(module)
        return outermost

    def _assign_prefixes(self, roots: list[torch.nn.Module], outermost: list[torch.nn.Module]) -> None:
        """Give each new root a prefix if it shares a parameter name with another trained model."""
        alike = [weakref.ref(other) for root in roots for other in outermost if _share_names(root, other)]
        outermost.clear()
        trained: list[torch.nn.Module] = []
        if alike:
            optimizers = live_optimizers()  # the model of an earlier fold and its optimizer may be deleted by now
            alive = [other for other in (reference() for reference in alike) if other is not None]
            trained = [root for optimizer in optimizers for root in find_roots(parameters_of(optimizer), alive)]
        self._roots = [(reference, prefix) for reference, prefix in self._roots if reference() is not None]
        for root in roots:
            if not any(reference() is root for reference, _ in self._roots):
                self._roots.append((weakref.ref(root), self._choose_prefix(root, trained)))

    def _choose_prefix(self, root: torch.nn.Module, trained: list[torch.nn.Module]) -> str:
        if not any(_share_names(root, other) for other in trained):
            return ""
        taken = {prefix for _, prefix in self._roots}
        kind = type(unwrap(root)).__name__
        candidates = [f"{kind}_", *(f"{kind}_{count}_" for count in range(1, len(self._roots) + 2))]
        return next(candidate for candidate in candidates if candidate not in taken)

    def prefix(self, root: torch.nn.Module) -> str:
        """Return the prefix of the names of a model's parameters and modules."""
        if not any(reference() is root for reference, _ in self._roots):
            self._assign_prefixes([root], self._outermost_including(root))
        return next(prefix for reference, prefix in self._roots if reference() is root)


def _ignore(roots: Iterable[torch.nn.Module]) -> None:
    return None


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return all parameters that an optimizer updates, in order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def find_roots(parameters: Iterable[torch.Tensor], outermost: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    """Return the outermost modules that hold these parameters, the module with most of them first."""
    wanted = {id(parameter) for parameter in parameters}
    held = [(module, _parameters_in(module, wanted)) for module in outermost]
    roots: list[torch.nn.Module] = []
    for module, parameter_ids in sorted(held, key=lambda pair: -len(pair[1])):
        if parameter_ids & wanted:
            roots.append(module)
            wanted -= parameter_ids
    return roots


def _share_names(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Whether two models have a parameter of the same name."""
    if one is other:
        return False
    return bool({name for name, _ in clean_named_parameters(one)} & {name for name, _ in clean_named_parameters(other)})


def _parameters_in(module: torch.nn.Module, wanted: set[int]) -> set[int]:
    if "_parameters" not in module.__dict__:
        return set()  # not initialized yet
    return {id(parameter) for parameter in module.parameters()} & wanted


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside PyTorch's wrappers."""
    while (name := _WRAPPERS.get(type(module).__name__)) is not None:
        module = module._modules[name]
    return module


def clean_named_parameters(root: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return a model's parameters by name, without the infixes that wrappers add."""
    module = unwrap(root)
    named = []
    for name, parameter in module.named_parameters():
        for infix in _INFIXES:
            name = name.replace(infix, "")
        named.append((name, parameter))
    return named
