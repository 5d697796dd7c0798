"""Which modules hold an optimizer's parameters, and what these are called."""

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
    """A parameter under its dotted name."""

    name: str
    parameter: torch.Tensor

    @property
    def collections(self) -> tuple[str, ...]:
        return ("biases",) if self.name.endswith("bias") else ("weights",)


class ParameterNames:
    """Gives models their names; a second model alive whose parameters would be called alike gets its class in front."""

    def __init__(self, registry: ModuleRegistry) -> None:
        self._registry = registry
        self._roots: list[tuple[weakref.ref[torch.nn.Module], str]] = []
        self._tellers: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[torch.optim.Optimizer]] = (
            weakref.WeakKeyDictionary()
        )
        """With which of a model's optimizers its frozen parameters are told."""
        self.on_trained: Callable[[Iterable[torch.nn.Module]], None] = _nobody
        """Called with the models that an optimizer updates, when they are named."""

    def name(self, optimizer: torch.optim.Optimizer) -> tuple[str, list[NamedParameter]]:
        """The classes of the models that an optimizer updates, and its parameters with names.

        Parameters of these models that no optimizer may change (frozen ones) are named too, with the first of a
        model's optimizers.
        """
        own = parameters_of(optimizer)
        outermost = self._registry.outermost()
        roots = find_roots(own, outermost)
        if len({id(each) for root in roots for each in root.parameters()} & {id(each) for each in own}) < len(own):
            outermost = live_modules()
            roots = find_roots(own, outermost)
            for root in roots:
                self._registry.note(root)
        self._place(roots, outermost)
        self.on_trained(roots)
        named: dict[int, NamedParameter] = {}
        wanted = {id(parameter) for parameter in own}
        for root in roots:
            prefix, is_teller = self.prefix(root), self._is_teller(optimizer, root)
            for name, parameter in format_parameter_count(root):
                if id(parameter) in wanted or (is_teller and not parameter.requires_grad):
                    named.setdefault(id(parameter), NamedParameter(prefix + name, parameter))
        for index, parameter in enumerate(own):
            unknown = f"{type(optimizer).__name__}_parameter_{index}"
            named.setdefault(id(parameter), NamedParameter(unknown, parameter))
        classes = " + ".join(type(unwrap(root)).__name__ for root in roots)
        return classes or "a model without modules", list(named.values())

    def _is_teller(self, optimizer: torch.optim.Optimizer, root: torch.nn.Module) -> bool:
        known = self._tellers.get(root)
        teller = known() if known is not None else None
        if teller is None:
            teller = optimizer
            self._tellers[root] = weakref.ref(optimizer)
        return teller is optimizer

    def _outermost_with(self, root: torch.nn.Module) -> list[torch.nn.Module]:
        """The outermost modules; a model that was built before anybody noted them is looked for, with all its like."""
        outermost = self._registry.outermost()
        if any(each is root for each in outermost) or next(root.parameters(), None) is None:
            return outermost
        outermost = live_modules()
        for each in outermost:
            self._registry.note(each)
        return outermost

    def _place(self, roots: list[torch.nn.Module], outermost: list[torch.nn.Module]) -> None:
        """Give each new root a prefix, if it shares a name with another that some optimizer updates."""
        alike = [weakref.ref(other) for root in roots for other in outermost if _is_alike(root, other)]
        outermost.clear()
        trained: list[torch.nn.Module] = []
        if alike:
            optimizers = live_optimizers()  # a model of an earlier fold, and its optimizer, may be gone by now
            alive = [other for other in (known() for known in alike) if other is not None]
            trained = [root for each in optimizers for root in find_roots(parameters_of(each), alive)]
        self._roots = [(known, prefix) for known, prefix in self._roots if known() is not None]
        for root in roots:
            if not any(known() is root for known, _ in self._roots):
                self._roots.append((weakref.ref(root), self._choose(root, trained)))

    def _choose(self, root: torch.nn.Module, trained: list[torch.nn.Module]) -> str:
        if not any(_is_alike(root, other) for other in trained):
            return ""
        taken = {prefix for _, prefix in self._roots}
        own = type(unwrap(root)).__name__
        candidates = [f"{own}_", *(f"{own}_{count}_" for count in range(1, len(self._roots) + 2))]
        return next(each for each in candidates if each not in taken)

    def prefix(self, root: torch.nn.Module) -> str:
        """What stands in front of the names of a model's parameters and modules."""
        if not any(known() is root for known, _ in self._roots):
            self._place([root], self._outermost_with(root))
        return next(prefix for known, prefix in self._roots if known() is root)


def _nobody(roots: Iterable[torch.nn.Module]) -> None:
    return None


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Every parameter that an optimizer updates, in order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def find_roots(parameters: Iterable[torch.Tensor], outermost: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    """Those of the outermost modules that hold these parameters, the one that holds most first."""
    wanted = {id(parameter) for parameter in parameters}
    held = [(module, _held(module, wanted)) for module in outermost]
    roots: list[torch.nn.Module] = []
    for module, parts in sorted(held, key=lambda each: -len(each[1])):
        if parts & wanted:
            roots.append(module)
            wanted -= parts
    return roots


def _is_alike(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Whether two models have a parameter of one name."""
    if one is other:
        return False
    return bool({name for name, _ in format_parameter_count(one)} & {name for name, _ in format_parameter_count(other)})


def _held(module: torch.nn.Module, wanted: set[int]) -> set[int]:
    if "_parameters" not in module.__dict__:
        return set()  # not initialised yet
    return {id(parameter) for parameter in module.parameters()} & wanted


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """The module inside PyTorch's wrappers."""
    while (name := _WRAPPERS.get(type(module).__name__)) is not None:
        module = module._modules[name]
    return module


def format_parameter_count(root: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """A model's parameters under their names, without what wrappers put into these."""
    module = unwrap(root)
    spoken = []
    for name, parameter in module.named_parameters():
        for infix in _INFIXES:
            name = name.replace(infix, "")
        spoken.append((name, parameter))
    return spoken
