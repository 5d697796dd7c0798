"""Which modules hold an optimizer's parameters, and what these are called."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import torch

_WRAPPERS: Final = {
    "DistributedDataParallel": "module.",
    "DataParallel": "module.",
    "OptimizedModule": "_orig_mod.",
    "AveragedModel": "module.",
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


class Names:
    """Gives models their names; a second model alive whose parameters would be called alike gets its class in front."""

    def __init__(self) -> None:
        self._roots: list[tuple[weakref.ref[torch.nn.Module], str]] = []

    def name(self, optimizer: torch.optim.Optimizer) -> tuple[str, list[NamedParameter]]:
        """The classes of the models that an optimizer updates, and its parameters with names.

        Parameters of these models that no optimizer may change (frozen ones) are named too.
        """
        own = parameters_of(optimizer)
        modules, optimizers = _live_objects()
        outermost = _outermost(modules)
        roots = find_roots(own, outermost)
        others = [root for each in optimizers for root in find_roots(parameters_of(each), outermost)]
        del modules, optimizers, outermost
        self._place(roots, others)
        named: dict[int, NamedParameter] = {}
        wanted = {id(parameter) for parameter in own}
        for root in roots:
            prefix = self._prefix(root)
            for name, parameter in _spoken_parameters(root):
                if id(parameter) in wanted or not parameter.requires_grad:
                    named.setdefault(id(parameter), NamedParameter(prefix + name, parameter))
        for index, parameter in enumerate(own):
            unknown = f"{type(optimizer).__name__}_parameter_{index}"
            named.setdefault(id(parameter), NamedParameter(unknown, parameter))
        classes = " + ".join(type(_unwrap(root)[0]).__name__ for root in roots)
        return classes or "a model without modules", list(named.values())

    def _place(self, roots: list[torch.nn.Module], others: list[torch.nn.Module]) -> None:
        """Give each new root a prefix, if it shares a name with another that some optimizer updates."""
        alike = [weakref.ref(other) for root in roots for other in others if _is_alike(root, other)]
        others.clear()
        if alike:
            gc.collect()  # a model of an earlier fold may only wait for its cycles to be found
        self._roots = [(known, prefix) for known, prefix in self._roots if known() is not None]
        for root in roots:
            if not any(known() is root for known, _ in self._roots):
                self._roots.append((weakref.ref(root), self._choose(root, alike)))

    def _choose(self, root: torch.nn.Module, alike: list[weakref.ref[torch.nn.Module]]) -> str:
        alive = [other for other in (known() for known in alike) if other is not None]
        if not any(_is_alike(root, other) for other in alive):
            return ""
        taken = {prefix for _, prefix in self._roots}
        own = type(_unwrap(root)[0]).__name__
        candidates = [f"{own}_", *(f"{own}_{count}_" for count in range(1, len(self._roots) + 2))]
        return next(each for each in candidates if each not in taken)

    def _prefix(self, root: torch.nn.Module) -> str:
        return next(prefix for known, prefix in self._roots if known() is root)


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


def _live_objects() -> tuple[list[torch.nn.Module], list[torch.optim.Optimizer]]:
    """All modules and optimizers alive: looked up once a model, so that nothing has to be kept in anybody's modules."""
    modules, optimizers = [], []
    for each in gc.get_objects():
        kind = type(each)  # not isinstance, which would run the __class__ property of other people's proxies
        if issubclass(kind, torch.nn.Module):
            modules.append(each)
        elif issubclass(kind, torch.optim.Optimizer) and "param_groups" in each.__dict__:
            optimizers.append(each)
    return modules, optimizers


def _outermost(modules: list[torch.nn.Module]) -> list[torch.nn.Module]:
    inner = {id(child) for module in modules for child in _children(module)}
    return [module for module in modules if id(module) not in inner]


def _children(module: torch.nn.Module) -> list[torch.nn.Module]:
    return [child for child in module.__dict__.get("_modules", {}).values() if child is not None]


def _is_alike(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Whether two models have a parameter of one name."""
    if one is other:
        return False
    return bool({name for name, _ in _spoken_parameters(one)} & {name for name, _ in _spoken_parameters(other)})


def _held(module: torch.nn.Module, wanted: set[int]) -> set[int]:
    if "_parameters" not in module.__dict__:
        return set()  # not initialised yet
    return {id(parameter) for parameter in module.parameters()} & wanted


def _unwrap(module: torch.nn.Module) -> tuple[torch.nn.Module, str]:
    """The module inside wrappers, and what the wrappers put in front of names."""
    removed = ""
    while (infix := _WRAPPERS.get(type(module).__name__)) is not None:
        removed += infix
        module = module._modules[infix[:-1]]  # type: ignore[assignment]
    return module, removed


def _spoken_parameters(root: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    module, _ = _unwrap(root)
    spoken = []
    for name, parameter in module.named_parameters():
        for infix in _INFIXES:
            name = name.replace(infix, "")
        spoken.append((name, parameter))
    return spoken
