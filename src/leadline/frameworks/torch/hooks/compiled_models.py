"""Observation of the calls of compiled models from outside, where no hook becomes part of their graphs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any, Final

import torch

from leadline.frameworks.torch.hooks.dynamo import has_compiled
from leadline.frameworks.torch.naming.model_names import unwrap

Enter = Callable[[torch.nn.Module, tuple[Any, ...]], None]
Leave = Callable[[torch.nn.Module, tuple[Any, ...], Mapping[str, Any], Any], None]

_CALL: Final = "_compiled_call_impl"
"""What PyTorch calls in place of a module's own call; it is left out of copies and pickles of the module."""


class CompiledModels:
    """The modules that ``torch.compile`` was given, whose calls are observed without a hook inside them.

    A global hook would be traced, and break the graphs of what is compiled. But a compiled model is called from code
    that is not, and so is a model of which only parts are compiled. Compiled functions may call any module: once there
    is one, nothing is observed.
    """

    def __init__(self) -> None:
        self._models: list[weakref.ref[torch.nn.Module]] = []
        self._has_functions = has_compiled()
        """Whether a function was compiled, or it is unknown what was."""

    def add(self, given: object, compiled: object) -> None:
        """Add what ``torch.compile`` was given, and returned for it; None: a model compiled itself."""
        owner = given.__self__ if isinstance(given, MethodType) else None
        is_own_call = isinstance(owner, torch.nn.Module) and given == owner._call_impl  # a model compiles itself
        model = owner if is_own_call else given if compiled is None else compiled
        if isinstance(model, torch.nn.Module):
            self._models.append(weakref.ref(model))
        elif not isinstance(owner, torch.optim.Optimizer):
            self._has_functions = True

    @property
    def exist(self) -> bool:
        """Whether anything that is compiled may be called."""
        return self._has_functions or bool(self._alive())

    @property
    def are_observable(self) -> bool:
        """Whether all that is compiled are models and optimizers."""
        return not self._has_functions

    def _alive(self) -> list[torch.nn.Module]:
        self._models = [reference for reference in self._models if reference() is not None]
        return [model for model in (reference() for reference in self._models) if model is not None]

    def observe(self, outermost: Iterable[torch.nn.Module], enter: Enter, leave: Leave) -> list[ObservedModel]:
        """Observe the calls of compiled modules, and of models of which nothing or only parts are compiled.

        Args:
            outermost: The modules alive that no other module contains.
            enter: Called before a call with the module, unwrapped, and its positional arguments.
            leave: Called after it, also with its keyword arguments and its output, None after an error.
        """
        compiled, models = {id(model): model for model in self._alive()}, list(outermost)
        if any(isinstance(model, torch.nn.DataParallel) for model in models):
            return []  # it would copy the observation to its replicas
        inside = {id(part) for model in compiled.values() for part in model.modules() if part is not model}
        observed = {id(model): model for model in (*map(unwrap, models), *compiled.values())}
        return [ObservedModel(model, enter, leave) for key, model in observed.items() if key not in inside]


class ObservedModel:
    """Observes the calls of one module until it is removed."""

    def __init__(self, module: torch.nn.Module, enter: Enter, leave: Leave) -> None:
        self._module, self._before = module, module.__dict__.get(_CALL)
        inner, call = unwrap(module), self._before or module._call_impl

        def observed(*args: Any, **kwargs: Any) -> Any:
            output = None
            enter(inner, args)
            try:
                output = call(*args, **kwargs)
            finally:
                leave(inner, args, kwargs, output)
            return output

        self._observed = observed
        module.__dict__[_CALL] = observed

    def remove(self) -> None:
        """Stop observing, unless the module was compiled meanwhile."""
        if self._module.__dict__.get(_CALL) is not self._observed:
            return
        if self._before is None:
            del self._module.__dict__[_CALL]
        else:
            self._module.__dict__[_CALL] = self._before
